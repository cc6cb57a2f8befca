/* RoPE (half-split pairs, base 500000) in C, judged over standard input and output.
 *
 *     cc -O2 -o rope rope.c -lm
 *     posenc check --exec ./rope --encoding @../my_rope.json
 *
 * It needs no JSON parser: requests have a fixed spelling and order, see docs/any-language.md.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char dtype[12], *digits;
    long shape[8], size;
    int rank, width; /* hexadecimal digits of one element */
} Array;

/* Reads {"dtype":"float32","shape":[2,3],"hex":"..."} at `text`; returns the text after it. */
static char *read_array(char *text, Array *a)
{
    char *dtype = strstr(text, "\"dtype\":\"") + 9, *at = strstr(dtype, "\"shape\":[") + 9;
    snprintf(a->dtype, sizeof a->dtype, "%.*s", (int)strcspn(dtype, "\""), dtype);
    a->width = strstr(a->dtype, "64") ? 16 : strstr(a->dtype, "32") ? 8 : 4;
    for (a->rank = 0, a->size = 1; *at != ']'; at += *at == ',')
        a->size *= a->shape[a->rank++] = strtol(at, &at, 10);
    a->digits = strstr(at, "\"hex\":\"") + 7;
    return a->digits + a->size * a->width;
}

static uint64_t bits(const Array *a, long i)
{
    uint64_t value = 0;
    for (const char *p = a->digits + i * a->width, *end = p + a->width; p < end; p++)
        value = value << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
    return value;
}

static float element(const Array *a, long i)
{
    uint32_t low = (uint32_t)bits(a, i);
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static void print_element(float value)
{
    uint32_t low;
    memcpy(&low, &value, sizeof low);
    char text[8];
    for (int k = 0; k < 8; k++)
        text[k] = "0123456789abcdef"[low >> (28 - 4 * k) & 15];
    fwrite(text, 1, 8, stdout);
}

/* x (B, H, S, D) and positions (S,): rotates elements k and k + D/2. */
static void apply(const Array *x, const Array *positions)
{
    long length = x->shape[2], dim = x->shape[3], half = dim / 2;
    double cosine[half + 1], sine[half + 1];
    printf("\"result\":{\"dtype\":\"float32\",\"shape\":[%ld,%ld,%ld,%ld],\"hex\":\"",
           x->shape[0], x->shape[1], length, dim);
    for (long i = 0; i < x->size; i += dim) {
        double position = (double)(int64_t)bits(positions, i / dim % length);
        for (long k = 0; k < half; k++) {
            double angle = position * pow(500000.0, -(double)k / half);
            cosine[k] = cos(angle), sine[k] = sin(angle);
        }
        for (long k = 0; k < half; k++)
            print_element(element(x, i + k) * cosine[k] - element(x, i + k + half) * sine[k]);
        for (long k = 0; k < half; k++)
            print_element(element(x, i + k + half) * cosine[k] + element(x, i + k) * sine[k]);
    }
    printf("\"}");
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        long id = strtol(strstr(line, "\"id\":") + 5, NULL, 10);
        printf("{\"id\":%ld,", id);
        if (id == 0) { /* hello */
            printf("\"protocol\":1,\"name\":\"rope.c\"");
        } else {
            Array x, positions;
            read_array(read_array(line, &x), &positions);
            if (strcmp(x.dtype, "float32") || strcmp(positions.dtype, "int64"))
                printf("\"refused\":\"x must be float32, positions int64\"");
            else if (positions.rank != 1)
                printf("\"refused\":\"positions must be (S,)\"");
            else
                apply(&x, &positions);
        }
        puts("}");
        fflush(stdout);
    }
    return 0;
}
