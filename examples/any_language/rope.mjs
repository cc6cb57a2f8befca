// RoPE (half-split pairs, base 500000) for Node, judged over standard input and output:
//
//     posenc check --exec "node rope.mjs" --encoding @../my_rope.json
import { createInterface } from "node:readline";

const BASE = 500000;
const ARRAYS = {
  float32: [4, (view, i) => view.getFloat32(i), (view, i, value) => view.setFloat32(i, value)],
  int64: [8, (view, i) => Number(view.getBigInt64(i))],
};

/** {"dtype", "shape", "hex"} with its elements as a Float64Array; DataView reads big-endian. */
function read({ dtype, shape, hex }) {
  if (!(dtype in ARRAYS)) throw new RangeError(`no ${dtype} here`);
  const [size, get] = ARRAYS[dtype];
  const bytes = Buffer.from(hex, "hex");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return { dtype, shape, data: Float64Array.from({ length: bytes.length / size }, (_, i) => get(view, i * size)) };
}

function write(dtype, shape, data) {
  const [size, , set] = ARRAYS[dtype];
  const view = new DataView(new ArrayBuffer(data.length * size));
  data.forEach((value, i) => set(view, i * size, value));
  return { dtype, shape, hex: Buffer.from(view.buffer).toString("hex") };
}

function apply(x, positions) {
  if (positions.shape.length !== 1) throw new RangeError("positions must be (S,)");
  const [, , length, dim] = x.shape;
  const half = dim / 2;
  const y = new Float64Array(x.data.length);
  for (let row = 0; row < y.length / dim; row++) {
    for (let k = 0; k < half; k++) {
      const frequency = BASE ** (-k / half);
      const angle = positions.data[row % length] * frequency;
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      const [i, j] = [row * dim + k, row * dim + half + k];
      y[i] = x.data[i] * cos - x.data[j] * sin;
      y[j] = x.data[j] * cos + x.data[i] * sin;
    }
  }
  return write(x.dtype, x.shape, y);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, call, arguments: given } = JSON.parse(line);
  let answer;
  try {
    answer = call === "hello" ? { protocol: 1, name: "rope.mjs" } : { result: apply(...given.map(read)) };
  } catch (error) {
    answer = { refused: error.message };
  }
  process.stdout.write(JSON.stringify({ id, ...answer }) + "\n");
}
