/** Small letters without accents: people search for `mua` and `mưa` with whatever keyboard they have. */
export function folded(text: string): string {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().replaceAll("đ", "d");
}
