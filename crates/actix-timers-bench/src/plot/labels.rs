//! Labels beside the ends of lines, moved apart so that none covers another.

/// Returns positions near the wanted ones, in the same order, at least `gap` apart and within `from` to `to` as far as
/// there is room for all. The labels move as little as possible (in the sense of least squares).
pub(crate) fn spread(wanted: &[f64], gap: f64, from: f64, to: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // With the gaps before each label subtracted, only the order matters: out-of-order neighbours share their mean.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (gaps, label) in order.iter().enumerate() {
        let mut group = (wanted[*label] - gaps as f64 * gap, 1);
        while let Some((mean, size)) = groups.pop_if(|(mean, _)| *mean > group.0) {
            group = ((mean * size as f64 + group.0 * group.1 as f64) / (size + group.1) as f64, size + group.1);
        }
        groups.push(group);
    }
    let last = to - wanted.len().saturating_sub(1) as f64 * gap;
    let shared = groups.iter().flat_map(|(mean, size)| std::iter::repeat_n(mean.min(last).max(from), *size));
    let mut places = vec![0.0; wanted.len()];
    for ((gaps, label), place) in order.iter().enumerate().zip(shared) {
        places[*label] = place + gaps as f64 * gap;
    }
    places
}
