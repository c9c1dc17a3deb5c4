//! Which of the pictures sent came when, where all that is known of one that came is its content: two may have the same.

/// For each picture sent, when it came. `sent`: what it is and when it was filmed; `received`: what came and when. Both in order, by one
/// clock, ns. Of all ways in which what came can be what was sent, in the same order and none before it was filmed, one in which as much
/// as possible came: the longest common subsequence, in time and space of the product of the lengths.
pub fn arrivals<T: PartialEq>(sent: &[(T, u64)], received: &[(T, u64)]) -> Vec<Option<u64>> {
    let width = received.len() + 1;
    let is_same = |row: usize, column: usize| sent[row].0 == received[column].0 && sent[row].1 <= received[column].1;
    // Of what is sent from a row on and received from a column on, so much can be the same.
    let mut common = vec![0u32; (sent.len() + 1) * width];
    for row in (0..sent.len()).rev() {
        for column in (0..received.len()).rev() {
            let at = row * width + column;
            let best = common[at + 1].max(common[at + width]);
            common[at] = if is_same(row, column) { best.max(common[at + width + 1] + 1) } else { best };
        }
    }
    let (mut column, mut came) = (0, Vec::with_capacity(sent.len()));
    for row in 0..sent.len() {
        let most = common[row * width + column];
        let costs_nothing = |at: &usize| is_same(row, *at) && common[(row + 1) * width + at + 1] + 1 == most;
        let taken = (column..received.len()).find(costs_nothing);
        came.push(taken.map(|at| received[at].1));
        column = taken.map_or(column, |at| at + 1);
    }
    came
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pictures_are_told_apart_by_their_neighbours() {
        let sent = [("a", 0), ("skip", 10), ("b", 20), ("skip", 30), ("c", 40), ("skip", 50)];
        let all = [("a", 5), ("skip", 15), ("b", 25), ("skip", 35), ("c", 45), ("skip", 55)];
        assert_eq!(arrivals(&sent, &all), all.map(|(_, at)| Some(at)));
        let without_the_first = [("a", 5), ("b", 25), ("skip", 35), ("c", 45), ("skip", 55)];
        assert_eq!(arrivals(&sent, &without_the_first), [Some(5), None, Some(25), Some(35), Some(45), Some(55)]);
        let late = [("a", 100), ("skip", 101), ("b", 102), ("skip", 103)];
        assert_eq!(arrivals(&sent, &late), [Some(100), Some(101), Some(102), Some(103), None, None]);
    }

    #[test]
    fn nothing_comes_before_it_was_filmed_nor_without_having_been_sent() {
        let sent = [("skip", 0), ("a", 10), ("skip", 20)];
        assert_eq!(arrivals(&sent, &[("skip", 5), ("other", 6), ("skip", 15)]), [Some(5), None, None]);
        assert_eq!(arrivals(&sent, &[("a", 9), ("skip", 25)]).iter().flatten().count(), 1);
        assert_eq!(arrivals(&sent, &[]), [None; 3]);
        assert_eq!(arrivals::<u8>(&[], &[(1, 1)]), []);
    }
}
