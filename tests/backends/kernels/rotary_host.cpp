// The library that tests call: every variant of the kernel, run thread after thread.
#include "rotary_host.h"
#include "rotary.cu"

template <typename T, int WIDTH, bool INTERLEAVED, bool TABLE>
static void launch(const unsigned *grid, const unsigned *block, const RotaryArguments &g) {
  blockDim = {block[0], block[1], 1};
  for (unsigned j = 0; j < grid[1]; ++j)
    for (unsigned i = 0; i < grid[0]; ++i) {
      blockIdx = {i, j, 0};
      for (unsigned y = 0; y < block[1]; ++y)
        for (unsigned x = 0; x < block[0]; ++x) {
          threadIdx = {x, y, 0};
          rotary<T, WIDTH, INTERLEAVED, TABLE, 4>(g);
        }
    }
}

#define VARIANT(T, WIDTH, INTERLEAVED, TABLE)                                        \
  if (!std::strcmp(name, "rotary<" #T ", " #WIDTH ", " #INTERLEAVED ", " #TABLE ", 4>")) { \
    launch<T, WIDTH, INTERLEAVED, TABLE>(grid, block, *g);                           \
    return 0;                                                                        \
  }
#define VARIANTS(T, WIDTH)         \
  VARIANT(T, WIDTH, false, false)  \
  VARIANT(T, WIDTH, false, true)   \
  VARIANT(T, WIDTH, true, false)   \
  VARIANT(T, WIDTH, true, true)

extern "C" int run(const char *name, const unsigned *grid, const unsigned *block,
                   const RotaryArguments *g) {
  VARIANTS(half16, 8) VARIANTS(half16, 1)
  VARIANTS(brain16, 8) VARIANTS(brain16, 1)
  VARIANTS(float, 4) VARIANTS(float, 1)
  VARIANTS(double, 2) VARIANTS(double, 1)
  return 1;
}

extern "C" void convert(const float *from, u16 *half, u16 *brain, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    half16 h;
    brain16 b;
    rounded(h, from[i]);
    rounded(b, from[i]);
    half[i] = h.bits;
    brain[i] = b.bits;
  }
}
