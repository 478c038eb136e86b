//! What errors are in the text of `Debug`, which is what a program shows whose `main` returns one.

use std::error::Error;
use std::fmt;

/// Gives error types a `Debug` that shows what `Display` shows, and the sources that it leaves out: the
/// text of an error that `main` returns is for the person who runs the program.
#[macro_export]
macro_rules! debug_by_display {
    ($($error:ty),+ $(,)?) => {
        $(impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::error::show(self, f)
            }
        })+
    };
}

/// Writes an error and its sources in one piece, those left out that the text before them contains.
///
/// # Errors
/// When the formatter refuses.
pub fn show(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    f.write_str(&text)
}

#[cfg(test)]
mod tests {
    use std::io;

    #[derive(thiserror::Error)]
    enum Outer {
        #[error("the file is gone")]
        Silent(#[source] io::Error),
        #[error("cannot open the file: {0}")]
        Full(#[from] io::Error),
    }

    debug_by_display!(Outer);

    #[test]
    fn sources_are_shown_once() {
        let cause = || io::Error::other("no such disk");
        assert_eq!(format!("{:?}", Outer::Silent(cause())), "the file is gone: no such disk");
        assert_eq!(format!("{:#?}", Outer::Full(cause())), "cannot open the file: no such disk");
        let boxed: Box<dyn std::error::Error> = Outer::Full(cause()).into();
        assert_eq!(format!("Error: {boxed:?}"), "Error: cannot open the file: no such disk");
    }
}
