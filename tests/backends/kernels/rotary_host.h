// What a CPU needs to run backends/kernels/rotary.cu: the CUDA builtins it uses, and a launch that calls
// every thread of the grid in turn.  Right for kernels whose threads never wait for each other.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

typedef uint16_t u16;
typedef uint32_t u32;
typedef long long i64;
typedef unsigned long long u64;
#define INLINE inline
#define __global__
#define __grid_constant__

struct dim3 {
  unsigned x, y, z;
};
static thread_local dim3 threadIdx, blockIdx, blockDim;

INLINE float fused(float a, float b, float c) { return std::fmaf(a, b, c); }
INLINE double fused(double a, double b, double c) { return std::fma(a, b, c); }
INLINE float times(float a, float b) { return a * b; }
INLINE double times(double a, double b) { return a * b; }
INLINE float negative(float a) { return -a; }
INLINE double negative(double a) { return -a; }
INLINE void not_a_number(float &a) { a = NAN; }
INLINE void not_a_number(double &a) { a = NAN; }
INLINE void nearest(i64 n, float &a) { a = (float)n; }
INLINE void nearest(i64 n, double &a) { a = (double)n; }
INLINE void nearest(double d, float &a) { a = (float)d; }
INLINE void nearest(double d, double &a) { a = d; }
INLINE u64 upper_half(u64 a, u64 b) { return (u64)(((unsigned __int128)a * b) >> 64); }

// Conversions with the results of cvt.rn.f16.f32 and cvt.rn.bf16.f32.
struct half16 {
  u16 bits;
};
struct brain16 {
  u16 bits;
};
INLINE u32 bits_of(float f) {
  u32 u;
  std::memcpy(&u, &f, 4);
  return u;
}
INLINE float float_of(u32 u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
INLINE float widened(brain16 v) { return float_of((u32)v.bits << 16); }
INLINE float widened(half16 v) {
  const u32 sign = (u32)(v.bits & 0x8000u) << 16, e = (v.bits >> 10) & 31u, m = v.bits & 1023u;
  if (e == 31) return float_of(sign | 0x7f800000u | (m << 13));
  if (e) return float_of(sign | ((e + 112u) << 23) | (m << 13));
  const float f = (float)m * 0x1p-24f;
  return sign ? -f : f;
}
INLINE void rounded(brain16 &v, float f) {
  const u32 u = bits_of(f);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  v.bits = nan ? (u16)0x7fff : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
INLINE void rounded(half16 &v, float f) {
  const u32 u = bits_of(f), a = u & 0x7fffffffu;
  const u16 sign = (u16)((u >> 16) & 0x8000u);
  if (a > 0x7f800000u) v.bits = 0x7fff;
  else if (a >= 0x47800000u) v.bits = (u16)(sign | 0x7c00u);  // 65536 and more
  else if (a < 0x38800000u) v.bits = (u16)(sign | (u32)std::nearbyint(float_of(a) * 0x1p24f));
  else v.bits = (u16)(sign | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13));
}
