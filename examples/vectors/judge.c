/* Judge a RoPE written in C by golden vectors, with no library but libc and libm:

       cc -O2 -o judge judge.c -lm
       ./judge rope.json          # right: every case passes, exit 0
       ./judge rope.json wrong    # adjacent pairs instead of half-split ones: exit 1
*/
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, DIM = 64 };

/* ---- the implementation to judge: half-split pairs, base 10000, angles in float32 ---- */

static void rope(const double *x, const double *positions, float *y, size_t rows, int wrong)
{
    for (size_t s = 0; s < rows; s++)
        for (int k = 0; k < DIM / 2; k++) {
            float angle = (float)positions[s] / powf(10000.0f, 2.0f * k / DIM);
            float c = cosf(angle), sn = sinf(angle);
            size_t one = s * DIM + (wrong ? 2 * k : k), two = one + (wrong ? 1 : DIM / 2);
            y[one] = (float)x[one] * c - (float)x[two] * sn;
            y[two] = (float)x[two] * c + (float)x[one] * sn;
        }
}

/* ---- the judge ---- */

/* Reads the array of hex words of 16 or 8 digits after `key` into `out`; returns their number. */
static size_t numbers(const char *at, const char *key, size_t digits, double *out)
{
    char word[17] = "";
    size_t n = 0, k = 0;
    for (at = strchr(strstr(at, key), '['); *at != ']'; at++) {
        if (!isxdigit((unsigned char)*at) || (word[k++] = *at, k < digits)) continue;
        union { uint64_t bits; double value; } wide = {strtoull(word, NULL, 16)};
        union { uint32_t bits; float value; } narrow = {(uint32_t)wide.bits};
        out[n++] = digits == 8 ? narrow.value : wide.value, k = 0;
    }
    return n;
}

/* Returns the worst score of float32 results in units; up to 128 passes. */
static double score(const float *y, const char *json)
{
    static double hi[MOST], lo[MOST], a[MOST], b[MOST];
    double worst = 0, u = 0x1p-24, tiny = 0x1p-126;
    size_t n = numbers(json, "\"hi\"", 16, hi);
    numbers(json, "\"lo\"", 16, lo), numbers(json, "\"A\"", 8, a), numbers(json, "\"B\"", 8, b);
    for (size_t i = 0; i < n; i++) {
        double error = fabs((y[i] - hi[i]) - lo[i]);
        double unit = u * (a[i] > 0 ? fmax(a[i], tiny) : 0) + u * b[i];
        if (error != 0) worst = fmax(worst, isnan(error) ? INFINITY : error / unit);
    }
    return worst;
}

/* ---- every case of one group whose positions are integers, one head and one row ---- */

static size_t integers(const char *at, const char *key, double *out)
{
    size_t n = 0;
    char *end;
    for (at = strchr(strstr(at, key), '[') + 1; *at && *at != ']'; at = end + (*end == ','))
        out[n++] = strtod(at, &end);
    return n;
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: judge rope.json [wrong]\n"), 2;
    FILE *file = fopen(argv[1], "rb");
    if (!file) return perror(argv[1]), 2;
    static char json[1 << 22];
    json[fread(json, 1, sizeof json - 1, file)] = 0;
    fclose(file);

    int judged = 0, failed = 0;
    static double x[MOST], positions[MOST], shape[8];
    static float y[MOST];
    const char *at = strstr(json, "\"id\": \"rope-64-half\"");
    const char *stop = strstr(at + 1, "\"surface\"");
    stop = strstr(stop + 1, "\"surface\"") ? strstr(stop + 1, "\"surface\"") : json + strlen(json);
    while ((at = strstr(at + 1, "\"id\": \"rope-64-half-")) && at < stop) {
        const char *inputs = strstr(at, "\"inputs\"");
        const char *whole = strstr(inputs, "\"positions\"");
        integers(inputs, "\"shape\"", shape);
        if (shape[0] * shape[1] != 1 || strstr(whole, "\"values\"") > strstr(whole, "\"truth\""))
            continue;
        numbers(inputs, "\"hex\"", 8, x);
        size_t rows = integers(whole, "\"values\"", positions);
        rope(x, positions, y, rows, argc > 2);
        double worst = score(y, at);
        printf("%-40.*s %g units\n", (int)(strchr(at + 8, '"') - at - 7), at + 7, worst);
        judged++, failed += !(worst <= 128);
    }
    printf("%d of %d cases rejected\n", failed, judged);
    return judged == 0 ? 2 : failed > 0;
}
