// Judge a RoPE written in JavaScript by golden vectors: node judge.mjs rope.json [wrong]
import { readFileSync } from "node:fs";

// ---- the implementation to judge: half-split pairs, base 10000 ----

function rope(x, positions, headDim, wrong) {
  const y = new Float32Array(x.length);
  const half = headDim / 2;
  positions.forEach((p, s) => {
    for (let k = 0; k < half; k++) {
      // The wrong version looks rows up in a table of 1024.
      const angle = (wrong ? p % 1024 : p) * 10000 ** (-k / half);
      const [c, sn] = [Math.cos(angle), Math.sin(angle)];
      const [one, two] = [s * headDim + k, s * headDim + k + half];
      y[one] = x[one] * c - x[two] * sn;
      y[two] = x[two] * c + x[one] * sn;
    }
  });
  return y;
}

// ---- the judge ----

function numbers(rows, digits) {
  const hex = rows.join("");
  const view = new DataView(new ArrayBuffer(8));
  return Array.from({ length: hex.length / digits }, (_, i) => {
    view.setBigUint64(0, BigInt("0x" + hex.substr(i * digits, digits).padEnd(16, "0")));
    return digits === 16 ? view.getFloat64(0) : view.getFloat32(0);
  });
}

function score(actual, truth, units) {
  const [uOut, uAngle, tiny] = numbers([units.u_out, units.u_angle, units.tiny], 16);
  const [hi, lo] = [numbers(truth.hi, 16), numbers(truth.lo, 16)];
  const [a, b] = [numbers(truth.A, 8), numbers(truth.B, 8)];
  return Math.max(...hi.map((_, i) => {
    const error = Math.abs(actual[i] - hi[i] - lo[i]);
    const unit = uOut * (a[i] > 0 ? Math.max(a[i], tiny) : 0) + uAngle * b[i];
    return error === 0 ? 0 : Number.isNaN(error) ? Infinity : error / unit;
  }));
}

// ---- every case of one group with integer positions, one head and one row ----

const [path, wrong] = process.argv.slice(2);
const file = JSON.parse(readFileSync(path, "utf8"));
const group = file.groups.find((g) => g.id === "rope-64-half");
const units = file.units.float32;
let [judged, failed] = [0, 0];
for (const { id, inputs, truth } of group.cases) {
  const [batch, heads, , headDim] = inputs.x.shape;
  if (batch * heads !== 1 || !inputs.positions.values) continue;
  const y = rope(numbers(inputs.x.hex, 8), inputs.positions.values, headDim, wrong === "wrong");
  const worst = score(y, truth.y, units);
  console.log(id.padEnd(40), worst, "units");
  judged += 1;
  failed += worst <= units.budget ? 0 : 1;
}
console.log(`${failed} of ${judged} cases rejected`);
process.exit(judged === 0 ? 2 : failed > 0 ? 1 : 0);
