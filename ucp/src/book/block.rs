//! Addresses of one length, together: what is alike in them once, what differs by columns of a byte each.
//!
//! ```text
//!   template    the first address
//!   columns     for each byte that differs, in order, how it comes from the row:
//!     copied      another byte before it in the address, and a constant
//!     coded       a few bits of the row, by a dictionary where the byte has few values; bytes that
//!                 change together share the bits
//!     counted     either, with the row's number added: process ids and ports of ranks in a row
//!   bits        the rows, bit by bit
//! ```
//! Of ranks on several hosts what names a host costs the bits that distinguish the hosts of the block, and
//! what counts up costs nothing. Random identifiers cost what they are long.

/// Where a byte comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The byte at `at` of the address, and `dictionary` added.
    Copied,
    /// `width` bits of the row from `at` on; the byte itself if they are 8 and `dictionary` is [`NONE`].
    Coded { counted: bool },
}

/// A byte that differs.
#[derive(Clone, Copy, Debug)]
struct Column {
    position: u16,
    width: u8,
    kind: Kind,
    at: u32,
    dictionary: u32,
}

/// Of a column without one.
const NONE: u32 = u32::MAX;

/// Some addresses.
#[derive(Debug)]
pub(super) struct Block {
    template: Box<[u8]>,
    columns: Box<[Column]>,
    dictionary: Box<[u8]>,
    bits: Box<[u8]>,
    /// Bits of a row.
    row: u32,
}

/// Which of the values each row has, numbered as they first occur.
struct Classes {
    of: Vec<u8>,
    values: Vec<u8>,
}

impl Classes {
    fn new(bytes: impl Iterator<Item = u8>) -> Self {
        let mut numbers = [None; 256];
        let mut values = Vec::new();
        let of = bytes.map(|byte| {
            *numbers[usize::from(byte)].get_or_insert_with(|| {
                values.push(byte);
                (values.len() - 1) as u8
            })
        });
        Self { of: of.collect(), values }
    }

    /// Bits that distinguish the values.
    fn width(&self) -> u8 {
        (usize::BITS - (self.values.len() - 1).leading_zeros()) as u8
    }
}

/// Bits of all rows that are alike for several columns.
struct Group {
    of: Vec<u8>,
    at: u32,
    width: u8,
}

impl Block {
    /// Puts addresses together. There is one at least, and all are of one length below 2^16.
    pub(super) fn new(all: &[Vec<u8>]) -> Self {
        let template = &all[0];
        let differs = |at: &usize| all.iter().any(|address| address[*at] != template[*at]);
        let (mut columns, mut dictionary) = (Vec::<Column>::new(), Vec::new());
        let (mut groups, mut row) = (Vec::<Group>::new(), 0_u32);
        for position in (0..template.len()).filter(differs) {
            let copied = columns.iter().find_map(|column| {
                let other = usize::from(column.position);
                let delta = |address: &Vec<u8>| address[position].wrapping_sub(address[other]);
                let first = delta(template);
                all.iter().all(|address| delta(address) == first).then_some((other, first))
            });
            let position = position as u16;
            if let Some((other, delta)) = copied {
                let (at, dictionary) = (other as u32, u32::from(delta));
                columns.push(Column { position, width: 0, kind: Kind::Copied, at, dictionary });
                continue;
            }
            let bytes = || all.iter().map(|address| address[usize::from(position)]);
            let plain = Classes::new(bytes());
            let counted =
                Classes::new(bytes().zip(0_usize..).map(|(b, n)| b.wrapping_sub(n as u8)));
            let is_counted = counted.values.len() < plain.values.len();
            let classes = if is_counted { counted } else { plain };
            let kind = Kind::Coded { counted: is_counted };
            let known = groups.iter().find(|group| group.of == classes.of);
            let (at, width, new) = match known {
                Some(group) => (group.at, group.width, 0),
                None => (row, classes.width(), usize::from(classes.width()) * all.len()),
            };
            if new + 8 * classes.values.len() < 8 * all.len() {
                let start = dictionary.len() as u32;
                dictionary.extend(&classes.values);
                columns.push(Column { position, width, kind, at, dictionary: start });
                if known.is_none() {
                    row += u32::from(width);
                    groups.push(Group { of: classes.of, at, width });
                }
                continue;
            }
            let (of, kind) = (bytes().collect(), Kind::Coded { counted: false });
            columns.push(Column { position, width: 8, kind, at: row, dictionary: NONE });
            groups.push(Group { of, at: row, width: 8 });
            row += 8;
        }
        // A code is read as part of two bytes.
        let mut bits = vec![0_u8; (row as usize * all.len()) / 8 + 2];
        for group in &groups {
            for (nth, code) in group.of.iter().enumerate() {
                let at = nth * row as usize + group.at as usize;
                let code = u16::from(*code) << (at % 8);
                bits[at / 8] |= code as u8;
                bits[at / 8 + 1] |= (code >> 8) as u8;
            }
        }
        Self {
            template: template.clone().into(),
            columns: columns.into(),
            dictionary: dictionary.into(),
            bits: bits.into(),
            row,
        }
    }

    /// The address with this number in the block, if there are so many.
    pub(super) fn get(&self, nth: usize) -> Vec<u8> {
        let mut address = self.template.to_vec();
        for column in &self.columns {
            let byte = match column.kind {
                Kind::Copied => address[column.at as usize].wrapping_add(column.dictionary as u8),
                Kind::Coded { counted } => {
                    let at = nth * self.row as usize + column.at as usize;
                    let two = u16::from_le_bytes([self.bits[at / 8], self.bits[at / 8 + 1]]);
                    let code = usize::from(two >> (at % 8)) & ((1 << column.width) - 1);
                    let byte = match column.dictionary {
                        NONE => code as u8,
                        start => self.dictionary[start as usize + code],
                    };
                    byte.wrapping_add(if counted { nth as u8 } else { 0 })
                }
            };
            address[usize::from(column.position)] = byte;
        }
        address
    }

    /// Bytes of memory beside the value itself.
    pub(super) fn bytes(&self) -> usize {
        self.template.len() + size_of_val(&*self.columns) + self.dictionary.len() + self.bits.len()
    }
}
