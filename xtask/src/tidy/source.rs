//! A Rust file as the rules see it: for each line its code, its comment, and where it stands.
//!
//! The lexer knows just enough of Rust to distinguish code from comments and from the inside of strings
//! and characters; what a rule searches for in code it will not find in prose, and the other way
//! round. It does not parse, and knows nothing of macros.

/// One line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The code, without comments; strings and characters are empty.
    pub(crate) code: String,
    /// The text of the comments, with their marks.
    pub(crate) comment: String,
    /// Whether it belongs to tests.
    pub(crate) test: bool,
    /// Whether it stands in `impl Trait for Type`.
    pub(crate) trait_impl: bool,
}

impl Line {
    /// Whether there is a comment and nothing else.
    pub(crate) fn only_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.trim().is_empty()
    }
}

/// A Rust file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path below the root.
    pub(crate) path: String,
    /// Its lines; the first has index 0.
    pub(crate) lines: Vec<Line>,
    /// Files that it declares as modules of its tests: `#[cfg(test)] mod name;`.
    pub(crate) test_modules: Vec<String>,
}

impl Source {
    /// Reads a file.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut lines = split(text);
        let placed = place(&mut lines);
        let mut source = Self { path: path.to_owned(), lines, test_modules: placed.test_modules };
        if placed.whole_file || is_test_path(path) {
            source.mark_test();
        }
        source
    }

    /// Marks everything in it as test code.
    pub(crate) fn mark_test(&mut self) {
        self.lines.iter_mut().for_each(|line| line.test = true);
    }

    /// The directory in which the file's modules lie, with a `/` at its end.
    pub(crate) fn module_directory(&self) -> String {
        let (directory, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match name {
            "lib.rs" | "main.rs" | "mod.rs" => format!("{directory}/"),
            _ => format!("{directory}/{}/", name.trim_end_matches(".rs")),
        }
    }

    /// Whether one of `words` is in a comment near the line `at`: on it, or above it behind at
    /// most `code_lines` lines of code. Lines of comment do not count.
    pub(crate) fn comment_near(&self, at: usize, code_lines: usize, words: &[&str]) -> bool {
        let says = |line: &Line| {
            let comment = line.comment.to_lowercase();
            words.iter().any(|word| comment.contains(word))
        };
        let mut left = code_lines;
        for line in self.lines[..=at].iter().rev() {
            if says(line) {
                return true;
            }
            if !line.only_comment() {
                if left == 0 {
                    return false;
                }
                left -= 1;
            }
        }
        false
    }
}

/// Whether a file is test code by its place.
pub(crate) fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| part == "tests" || part == "conformance")
        || name == "tests.rs"
        || name == "conformance.rs"
        || name.ends_with("_tests.rs")
}

/// Positions of `word` in `text` where it stands alone.
pub(crate) fn words_at<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !text[..at].chars().next_back().is_some_and(part)
            && !text[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// Where the lexer is.
#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    /// Nested so many times.
    BlockComment(u32),
    Text,
    /// Ends with a quote and so many hashes.
    RawText(usize),
}

fn split(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        if c == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            i += 1;
            continue;
        }
        let line = lines.last_mut().expect("there is a line from the start");
        let mut step = 1;
        match state {
            State::Code => {
                let before = line.code.chars().next_back();
                if c == '/' && at(i + 1) == '/' {
                    state = State::LineComment;
                    line.comment.push_str("//");
                    step = 2;
                } else if c == '/' && at(i + 1) == '*' {
                    state = State::BlockComment(1);
                    line.comment.push_str("/*");
                    step = 2;
                } else if let Some((hashes, length)) = raw_start(&chars[i..], before) {
                    state = State::RawText(hashes);
                    line.code.push('"');
                    step = length;
                } else if c == '"' {
                    state = State::Text;
                    line.code.push('"');
                } else if c == '\'' {
                    step = quoted(&chars[i..]);
                    line.code.push_str(if step > 1 { "''" } else { "'" });
                } else {
                    line.code.push(c);
                }
            }
            State::LineComment => line.comment.push(c),
            State::BlockComment(depth) => {
                line.comment.push(c);
                if c == '*' && at(i + 1) == '/' {
                    line.comment.push('/');
                    step = 2;
                    state = if depth == 1 { State::Code } else { State::BlockComment(depth - 1) };
                } else if c == '/' && at(i + 1) == '*' {
                    line.comment.push('*');
                    step = 2;
                    state = State::BlockComment(depth + 1);
                }
            }
            State::Text => {
                if c == '\\' && at(i + 1) != '\n' {
                    step = 2;
                } else if c == '"' {
                    line.code.push('"');
                    state = State::Code;
                }
            }
            State::RawText(hashes) => {
                if c == '"' && (1..=hashes).all(|k| at(i + k) == '#') {
                    line.code.push('"');
                    step = 1 + hashes;
                    state = State::Code;
                }
            }
        }
        i += step;
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    lines
}

/// Hashes and length of the start of a raw string (`r"`, `br##"`), where one starts here.
fn raw_start(rest: &[char], before: Option<char>) -> Option<(usize, usize)> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    (rest.get(prefix + hashes) == Some(&'"')).then_some((hashes, prefix + hashes + 1))
}

/// Length of a character that starts here, or 1 for a lifetime.
fn quoted(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|&c| c == '\'').map_or(1, |end| end + 4),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// A block that is open.
#[derive(Clone, Copy)]
struct Block {
    test: bool,
    trait_impl: bool,
}

/// What [`place`] learns of a file.
#[derive(Default)]
struct Placed {
    /// Modules that are declared for tests only.
    test_modules: Vec<String>,
    /// The file says of itself that it is for tests.
    whole_file: bool,
}

/// Finds out which lines belong to tests and which to implementations of traits.
fn place(lines: &mut [Line]) -> Placed {
    let mut placed = Placed::default();
    let mut open: Vec<Block> = Vec::new();
    // Code since the last item or block began or ended; nesting of brackets in it.
    let mut header = String::new();
    let mut nesting = 0_i32;
    // An attribute said that the item which comes next is for tests.
    let mut pending = false;
    let mut attribute: Option<Attribute> = None;
    for line in lines {
        let block = open.last().copied();
        let mut test = pending || block.is_some_and(|b| b.test);
        line.trait_impl = block.is_some_and(|b| b.trait_impl);
        header.push(' ');
        for c in line.code.chars() {
            if let Some(reading) = &mut attribute {
                match reading.next(c) {
                    Read::More => {}
                    Read::NotOne => attribute = None,
                    Read::End => {
                        if reading.is_test() {
                            placed.whole_file |= reading.inner && open.is_empty();
                            pending |= !reading.inner;
                        }
                        attribute = None;
                    }
                }
                continue;
            }
            match c {
                '#' => attribute = Some(Attribute::default()),
                '(' | '[' => nesting += 1,
                ')' | ']' => nesting -= 1,
                '{' => {
                    let trait_impl =
                        words_at(&header, "impl").next().is_some() && header.contains(" for ");
                    let inside = open.last().is_some_and(|b| b.test);
                    open.push(Block { test: inside || pending, trait_impl });
                    test |= pending;
                    pending = false;
                    header.clear();
                }
                '}' => {
                    open.pop();
                    header.clear();
                }
                ';' if nesting == 0 => {
                    if let Some(at) = words_at(&header, "mod").next().filter(|_| pending) {
                        placed.test_modules.push(header[at + 3..].trim().to_owned());
                    }
                    test |= pending;
                    pending = false;
                    header.clear();
                }
                // A field or a variant, which has no block of its own.
                ',' if nesting == 0 && !begins_item(&header) => {
                    test |= pending;
                    pending = false;
                }
                _ => header.push(c),
            }
        }
        line.test = test || pending;
    }
    placed
}

fn begins_item(header: &str) -> bool {
    ["fn", "impl", "mod", "struct", "enum", "trait", "union"]
        .iter()
        .any(|word| words_at(header, word).next().is_some())
}

/// An attribute while it is read, from behind its `#`.
#[derive(Default)]
struct Attribute {
    text: String,
    inner: bool,
    depth: u32,
}

enum Read {
    More,
    NotOne,
    End,
}

impl Attribute {
    fn next(&mut self, c: char) -> Read {
        match (c, self.depth) {
            ('!', 0) => self.inner = true,
            ('[', 0) => self.depth = 1,
            (_, 0) => return Read::NotOne,
            (']', 1) => return Read::End,
            _ => {
                match c {
                    '[' => self.depth += 1,
                    ']' => self.depth -= 1,
                    _ => {}
                }
                self.text.push(c);
            }
        }
        Read::More
    }

    /// Whether it keeps its item out of everything but tests.
    fn is_test(&self) -> bool {
        let text: String = self.text.chars().filter(|c| !c.is_whitespace()).collect();
        text == "test"
            || text.starts_with("cfg(")
                && words_at(&text, "test").next().is_some()
                && !text.contains("not(test")
    }
}

#[cfg(test)]
mod tests;
