// Rotary embeddings of queries and keys in one pass over memory.
//
// NVRTC (through CuPy) compiles this file for the GPU, and a C++17 compiler for the model that
// runs it on a CPU (tests/backends/kernels/rotary_host.h): it includes nothing, and below the first
// section every line is the same for both.  All arithmetic is integers and single IEEE operations,
// so both compute the same bits.
//
// One thread computes the cos and sin of WIDTH pairs of one token, and rotates these pairs in
// heads_per_block heads; it loads IN_FLIGHT heads before it stores any.
//   grid  x: tokens / blockDim.y   y: heads / heads_per_block
//   block x: pairs / WIDTH         y: tokens
// WIDTH is the number of elements in 16 bytes if all rows are aligned to 16 bytes, else 1.

// ---------------------------------------------------------------- what differs between GPU and CPU
#ifdef __CUDACC__
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#define INLINE __device__ __forceinline__

// CuPy adds -ftz=true, and the last option wins.  The _ieee intrinsic and inline PTX keep subnormal
// numbers with any option; so does flipping the sign bit.
INLINE float fused(float a, float b, float c) { return __fmaf_ieee_rn(a, b, c); }
INLINE float times(float a, float b) {
  float r;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
INLINE double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
INLINE double times(double a, double b) { return __dmul_rn(a, b); }
INLINE float negative(float a) { return __int_as_float(__float_as_int(a) ^ (int)0x80000000); }
INLINE double negative(double a) { return -a; }
INLINE void not_a_number(float &a) { a = __int_as_float(0x7fc00000); }
INLINE void not_a_number(double &a) { a = __longlong_as_double(0x7ff8000000000000LL); }
INLINE void nearest(i64 n, float &a) { a = __ll2float_rn(n); }
INLINE void nearest(i64 n, double &a) { a = __ll2double_rn(n); }
INLINE void nearest(double d, float &a) { asm("cvt.rn.f32.f64 %0, %1;" : "=f"(a) : "d"(d)); }
INLINE void nearest(double d, double &a) { a = d; }
INLINE u64 upper_half(u64 a, u64 b) { return __umul64hi(a, b); }

struct half16 { u16 bits; };
struct brain16 { u16 bits; };
INLINE float widened(half16 v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
}
INLINE float widened(brain16 v) { return __uint_as_float((u32)v.bits << 16); }
INLINE void rounded(half16 &v, float f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v.bits) : "f"(f)); }
INLINE void rounded(brain16 &v, float f) {
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v.bits) : "f"(f));
#else  // there is no such instruction
  const u32 u = __float_as_uint(f);
  v.bits = (u & 0x7fffffffu) > 0x7f800000u ? (u16)0x7fff
                                           : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
#endif

INLINE float widened(float v) { return v; }
INLINE double widened(double v) { return v; }
INLINE void rounded(float &v, float f) { v = f; }
INLINE void rounded(double &v, double f) { v = f; }
template <typename T> struct Arithmetic { typedef float type; };
template <> struct Arithmetic<double> { typedef double type; };

// ---------------------------------------------------------------- arguments
// rotary_launch.py packs the same members in the same order.
#define MOST_RUNS 12
struct Run { int start, pairs; };   // consecutive pairs on 2 * pairs channels from start
struct Gap { int start, stop; };    // channels outside all runs

struct RotaryArguments {
  // Members that change between calls.  Queries have index 0, keys 1.
  const void *x[2];
  void *y[2];
  const void *angles;               // frequencies u64 (2, pairs), or a table (rows, 2, pairs)
  const i64 *positions;             // null: the position is first + its index
  const int *axes;                  // the position axis of every pair; null: one axis
  int *flag;                        // set to 1 if a position is out of bounds
  i64 first, lowest, highest, offset;
  double cos_factor, sin_factor;    // m or 1/m; sin_factor has the sign of the rotation
  // Members that a plan fixes.  Strides are in elements: batch, head, row, channel.
  i64 x_strides[2][4], y_strides[2][4];
  i64 place[3];                     // strides of positions: batch, row, axis
  i64 batch, rows, heads[2];
  int heads_per_block, pairs, runs, gaps;
  Run run[MOST_RUNS];
  Gap gap[MOST_RUNS + 1];
};
static_assert(sizeof(RotaryArguments) == 512, "rotary_launch.py packs 512 bytes");

// ---------------------------------------------------------------- cos and sin of an exact angle
// sin(pi/4 u) and cos(pi/4 u), |u| <= 1, by minimax polynomials in t = u * u.
INLINE float sine(float u, float t) {
  float p = 0x1.4bc85cp-22f;
  p = fused(p, t, -0x1.32ca9ep-15f);
  p = fused(p, t, 0x1.466bbap-9f);
  p = fused(p, t, -0x1.4abbcep-4f);
  p = fused(p, t, -0x1.778950p-26f);
  return fused(u, 0x1.921fb6p-1f, times(u, p));
}
INLINE float cosine(float t) {
  float p = -0x1.a0ee14p-26f;
  p = fused(p, t, 0x1.e1e7ccp-19f);
  p = fused(p, t, -0x1.55d3bap-12f);
  p = fused(p, t, 0x1.03c1f0p-6f);
  p = fused(p, t, -0x1.3bd3ccp-2f);
  return fused(p, t, 1.0f);
}
INLINE double sine(double u, double t) {
  double p = 0x1.a7788b76b30d1p-55;
  p = fused(p, t, -0x1.6faa7e91b299fp-46);
  p = fused(p, t, 0x1.e8f4318c0c907p-38);
  p = fused(p, t, -0x1.e3074fdc9bf34p-30);
  p = fused(p, t, 0x1.50783487edcdbp-22);
  p = fused(p, t, -0x1.32d2cce62bd82p-15);
  p = fused(p, t, 0x1.466bc6775aae2p-9);
  p = fused(p, t, -0x1.4abbce625be53p-4);
  p = fused(p, t, 0x1.1a6262cf5bea8p-55);
  return fused(u, 0x1.921fb54442d18p-1, times(u, p));
}
INLINE double cosine(double t) {
  double p = -0x1.27a36e7594108p-59;
  p = fused(p, t, 0x1.20c39d8a6c558p-50);
  p = fused(p, t, -0x1.b6e24c4300908p-42);
  p = fused(p, t, 0x1.f9d38a3540cb5p-34);
  p = fused(p, t, -0x1.a6d1f2a203b82p-26);
  p = fused(p, t, 0x1.e1f506891bab3p-19);
  p = fused(p, t, -0x1.55d3c7e3cbffap-12);
  p = fused(p, t, 0x1.03c1f081b5ac4p-6);
  p = fused(p, t, -0x1.3bd3cc9be45dep-2);
  return fused(p, t, 1.0);
}

// position * frequency mod 1 turn, in units of 2^-64 turns: the frequency has 128 bits after the
// point, and integer overflow drops whole turns.
INLINE u64 phase_of(i64 position, u64 frequency, u64 below) {
  const u64 p = (u64)position;
  return p * frequency + upper_half(p, below) - (position < 0 ? below : 0);
}

template <typename A> INLINE void cos_sin_of(u64 phase, A &c, A &s) {
  const u64 quarter = (phase + (1ULL << 61)) >> 62;        // the nearest quarter turn, mod 4
  A u;
  nearest((i64)(phase - (quarter << 62)), u);              // at most an eighth of a turn
  u = times(u, (A)0x1p-61);
  const A t = times(u, u), small_sine = sine(u, t), small_cosine = cosine(t);
  const A a = (quarter & 1) ? small_cosine : small_sine;
  const A b = (quarter & 1) ? small_sine : small_cosine;
  s = (quarter & 2) ? negative(a) : a;
  c = ((quarter + 1) & 2) ? negative(b) : b;
}

// ---------------------------------------------------------------- memory
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
template <typename T, int N> INLINE Pack<T, N> load(const T *p) {
  return *reinterpret_cast<const Pack<T, N> *>(p);
}
template <typename T, int N> INLINE void store(T *p, const Pack<T, N> &v) {
  *reinterpret_cast<Pack<T, N> *>(p) = v;
}

// One head of one token.
template <typename T> struct Row {
  const T *x;
  T *y;
  i64 dx, dy;
};
template <typename T>
INLINE Row<T> row_of(const RotaryArguments &g, i64 b, i64 s, i64 head) {
  const bool key = head >= g.heads[0];
  const i64 h = key ? head - g.heads[0] : head;
  const i64 *sx = key ? g.x_strides[1] : g.x_strides[0];
  const i64 *sy = key ? g.y_strides[1] : g.y_strides[0];
  Row<T> row;
  row.x = (const T *)(key ? g.x[1] : g.x[0]) + (b * sx[0] + h * sx[1] + s * sx[2]);
  row.y = (T *)(key ? g.y[1] : g.y[0]) + (b * sy[0] + h * sy[1] + s * sy[2]);
  row.dx = sx[3];
  row.dy = sy[3];
  return row;
}

// ---------------------------------------------------------------- the kernel
// cos and sin of the pairs p .. p + WIDTH - 1.  A position out of bounds reads no memory, sets the
// flag and makes its pairs NaN.
template <typename A, int WIDTH, bool TABLE>
INLINE void angles_of(const RotaryArguments &g, i64 at, int p, A *c, A *s) {
  i64 position = 0;
  bool known[WIDTH] = {};
#pragma unroll
  for (int j = 0; j < WIDTH; ++j) {
    known[j] = known[0];
    if (j == 0 || g.axes) {
      const i64 here = g.axes ? at + g.axes[p + j] * g.place[2] : at;
      const i64 given = g.positions ? g.positions[here] : g.first + here;
      known[j] = g.lowest <= given && given <= g.highest;
      position = known[j] ? given + g.offset : 0;
      if (!known[j]) *g.flag = 1;
    }
    if (!TABLE) {
      const u64 *frequency = (const u64 *)g.angles + p + j;
      cos_sin_of<A>(phase_of(position, frequency[0], frequency[g.pairs]), c[j], s[j]);
    }
  }
  if (TABLE) {
    constexpr int N = WIDTH == 1 ? 1 : 16 / (int)sizeof(A);
    const A *entry = (const A *)g.angles + position * 2 * g.pairs + p;
#pragma unroll
    for (int j = 0; j < WIDTH; j += N) {
      const Pack<A, N> cosines = load<A, N>(entry + j), sines = load<A, N>(entry + g.pairs + j);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        c[j + i] = cosines.v[i];
        s[j + i] = sines.v[i];
      }
    }
  }
  A cos_factor, sin_factor;
  nearest(g.cos_factor, cos_factor);
  nearest(g.sin_factor, sin_factor);
#pragma unroll
  for (int j = 0; j < WIDTH; ++j) {
    c[j] = times(c[j], cos_factor);
    s[j] = times(s[j], sin_factor);
    if (!known[j]) {
      not_a_number(c[j]);
      not_a_number(s[j]);
    }
  }
}

template <typename T, int WIDTH, bool INTERLEAVED, bool TABLE, int IN_FLIGHT>
__global__ void rotary(const __grid_constant__ RotaryArguments g) {
  typedef typename Arithmetic<T>::type A;
  const i64 token = (i64)blockIdx.x * blockDim.y + threadIdx.y;
  if (token >= g.batch * g.rows) return;
  const i64 b = token / g.rows, s = token - b * g.rows;
  const i64 first_head = (i64)blockIdx.y * g.heads_per_block;
  i64 end = first_head + g.heads_per_block;
  if (end > g.heads[0] + g.heads[1]) end = g.heads[0] + g.heads[1];

  for (int p = (int)threadIdx.x * WIDTH; p < g.pairs; p += (int)blockDim.x * WIDTH) {
    A c[WIDTH], sn[WIDTH];
    angles_of<A, WIDTH, TABLE>(g, b * g.place[0] + s * g.place[1], p, c, sn);
    int r = 0, inside = p;
    while (inside >= g.run[r].pairs) inside -= g.run[r++].pairs;
    // Two packs hold the pairs: adjacent if interleaved, apart for halves.
    const i64 one = g.run[r].start + (INTERLEAVED ? 2 * inside : inside);
    const i64 two = one + (INTERLEAVED ? WIDTH : g.run[r].pairs);

    for (i64 head = first_head; head < end; head += IN_FLIGHT) {
      Pack<T, WIDTH> v[IN_FLIGHT], w[IN_FLIGHT];
      Row<T> row[IN_FLIGHT];
#pragma unroll
      for (int u = 0; u < IN_FLIGHT; ++u) {
        if (head + u < end) {
          row[u] = row_of<T>(g, b, s, head + u);
          v[u] = load<T, WIDTH>(row[u].x + (WIDTH == 1 ? one * row[u].dx : one));
          w[u] = load<T, WIDTH>(row[u].x + (WIDTH == 1 ? two * row[u].dx : two));
        }
      }
#pragma unroll
      for (int u = 0; u < IN_FLIGHT; ++u) {
        if (head + u < end) {
          Pack<T, 2 * WIDTH> in, out;
#pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            in.v[j] = v[u].v[j];
            in.v[j + WIDTH] = w[u].v[j];
          }
#pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            const int i1 = INTERLEAVED ? 2 * j : j, i2 = INTERLEAVED ? 2 * j + 1 : j + WIDTH;
            const A x1 = widened(in.v[i1]), x2 = widened(in.v[i2]);
            rounded(out.v[i1], fused(x1, c[j], negative(times(x2, sn[j]))));
            rounded(out.v[i2], fused(x2, c[j], times(x1, sn[j])));
          }
#pragma unroll
          for (int j = 0; j < WIDTH; ++j) {
            v[u].v[j] = out.v[j];
            w[u].v[j] = out.v[j + WIDTH];
          }
          store<T, WIDTH>(row[u].y + (WIDTH == 1 ? one * row[u].dy : one), v[u]);
          store<T, WIDTH>(row[u].y + (WIDTH == 1 ? two * row[u].dy : two), w[u]);
        }
      }
    }
  }

  if (g.gaps == 0) return;
  for (i64 head = first_head; head < end; ++head) {
    const Row<T> row = row_of<T>(g, b, s, head);
    if ((const void *)row.x == (const void *)row.y) continue;   // in place
    for (int k = 0; k < g.gaps; ++k) {
      const i64 stop = g.gap[k].stop;
      for (i64 d = g.gap[k].start + (i64)threadIdx.x * WIDTH; d < stop; d += blockDim.x * WIDTH)
        store<T, WIDTH>(row.y + (WIDTH == 1 ? d * row.dy : d),
                        load<T, WIDTH>(row.x + (WIDTH == 1 ? d * row.dx : d)));
    }
  }
}
