// RoPE (half-split pairs, base 500000) in Rust, judged over standard input and output:
//
//     rustc -O rope.rs
//     posenc check --exec ./rope --encoding @../my_rope.json
//
// It needs no crate: requests have a fixed spelling and order, see docs/any-language.md.
use std::io::{self, BufRead, Write};

const BASE: f64 = 500000.0;

/// {"dtype":"float32","shape":[2,3],"hex":"..."}
struct Array<'a> {
    dtype: &'a str,
    shape: Vec<usize>,
    hex: &'a str,
}

impl Array<'_> {
    /// Returns the bits of every element.
    fn bits(&self) -> impl Iterator<Item = u64> + '_ {
        let digits = if self.dtype.ends_with("64") { 16 } else { 8 };
        let words = self.hex.as_bytes().chunks(digits).map(|word| std::str::from_utf8(word).unwrap());
        words.map(|word| u64::from_str_radix(word, 16).expect("hexadecimal digits"))
    }
}

/// Returns what stands between `before` and `after`, and the text behind that.
fn between<'a>(text: &'a str, before: &str, after: &str) -> (&'a str, &'a str) {
    let (_, rest) = text.split_once(before).expect(before);
    rest.split_once(after).expect(after)
}

/// Returns the first array in `text`, and the text behind it.
fn read(text: &str) -> (Array<'_>, &str) {
    let (dtype, rest) = between(text, "\"dtype\":\"", "\"");
    let (sizes, rest) = between(rest, "\"shape\":[", "]");
    let (hex, rest) = between(rest, "\"hex\":\"", "\"");
    let shape = sizes.split(',').filter_map(|size| size.parse().ok()).collect();
    (Array { dtype, shape, hex }, rest)
}

/// Rotates elements k and k + D/2 of x (B, H, S, D) by the angles of positions (S,).
fn apply(x: &Array, positions: &Array) -> Result<String, &'static str> {
    if x.dtype != "float32" || positions.dtype != "int64" {
        return Err("x must be float32, positions int64");
    }
    if positions.shape.len() != 1 {
        return Err("positions must be (S,)");
    }
    let dim = x.shape[3];
    let half = dim / 2;
    let positions: Vec<f64> = positions.bits().map(|bits| bits as i64 as f64).collect();
    let mut y: Vec<f64> = x.bits().map(|bits| f32::from_bits(bits as u32) as f64).collect();
    for (row, channels) in y.chunks_mut(dim).enumerate() {
        let position = positions[row % positions.len()];
        let (first, second) = channels.split_at_mut(half);
        for (k, (a, b)) in first.iter_mut().zip(second).enumerate() {
            let (sin, cos) = (position * BASE.powf(-(k as f64) / half as f64)).sin_cos();
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
    let hex: String = y.iter().map(|&value| format!("{:08x}", (value as f32).to_bits())).collect();
    Ok(format!(r#"{{"dtype":"float32","shape":{:?},"hex":"{hex}"}}"#, x.shape))
}

fn main() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (id, rest) = between(&line, "\"id\":", ",");
        let answer = if id == "0" {
            r#""protocol":1,"name":"rope.rs""#.to_string() // hello
        } else {
            let (x, rest) = read(rest);
            match apply(&x, &read(rest).0) {
                Ok(array) => format!(r#""result":{array}"#),
                Err(reason) => format!(r#""refused":"{reason}""#),
            }
        };
        println!(r#"{{"id":{id},{answer}}}"#);
        io::stdout().flush()?;
    }
    Ok(())
}
