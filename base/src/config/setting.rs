//! Settings as constants: the typed [`Setting`], the [`Descriptor`] that a table holds, and the
//! macros that declare both. Nothing here holds a value that somebody set.

use std::marker::PhantomData;
use std::time::Duration;

use super::text::{read_bytes, read_switch, read_time, show_bytes, show_time};
use super::{BadValue, PREFIX, Value};

/// The form of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A size in bytes, between two bounds (inclusive).
    Bytes {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number, between two bounds (inclusive).
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Yes or no.
    Switch,
    /// A time, between two bounds (inclusive).
    Time {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// One of a list of words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A setting without its type, as tables hold it.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    name: &'static str,
    default: Value<&'static str>,
    kind: Kind,
    auto: bool,
    doc: &'static str,
    cost: &'static str,
    change: &'static str,
}

impl Descriptor {
    /// The variable.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The form of its values.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What it is.
    pub const fn doc(&self) -> &'static str {
        self.doc
    }

    /// What it costs or trades.
    pub const fn cost(&self) -> &'static str {
        self.cost
    }

    /// When to change it.
    pub const fn change(&self) -> &'static str {
        self.change
    }

    /// The form of its values in words.
    pub fn form(&self) -> String {
        let form = match self.kind {
            Kind::Bytes { min, max } => format!(
                "a size in bytes, k, m or g, from {} to {}",
                show_bytes(min),
                show_bytes(max)
            ),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Switch => "yes or no".to_owned(),
            Kind::Time { min, max } => {
                format!("a time in ns, us, ms or s, from {} to {}", show_time(min), show_time(max))
            }
            Kind::Choice(names) => format!("one of {}", names.join(", ")),
            Kind::Text => "text".to_owned(),
        };
        if self.auto { format!("auto, or {form}") } else { form }
    }

    pub(super) fn default_value(&self) -> Value<String> {
        match self.default {
            Value::Auto => Value::Auto,
            Value::Number(number) => Value::Number(number),
            Value::Switch(on) => Value::Switch(on),
            Value::Time(time) => Value::Time(time),
            Value::Choice(index) => Value::Choice(index),
            Value::Text(text) => Value::Text(text.to_owned()),
        }
    }

    pub(super) fn show_default(&self) -> String {
        self.show(&self.default_value())
    }

    pub(super) fn show(&self, value: &Value<String>) -> String {
        match value {
            Value::Auto => "auto".to_owned(),
            Value::Number(number) if matches!(self.kind, Kind::Bytes { .. }) => show_bytes(*number),
            Value::Number(number) => number.to_string(),
            Value::Switch(on) => if *on { "yes" } else { "no" }.to_owned(),
            Value::Time(time) => show_time(*time),
            Value::Choice(index) => match self.kind {
                Kind::Choice(names) => names[*index].to_owned(),
                _ => index.to_string(),
            },
            Value::Text(text) => text.clone(),
        }
    }

    pub(super) fn parse(&self, text: &str) -> Result<Value<String>, BadValue> {
        let bare = text.trim();
        let read = if self.auto && bare.eq_ignore_ascii_case("auto") {
            Some(Value::Auto)
        } else {
            match self.kind {
                Kind::Bytes { min, max } => {
                    read_bytes(bare).filter(|n| (min..=max).contains(n)).map(Value::Number)
                }
                Kind::Integer { min, max } => bare
                    .parse()
                    .ok()
                    .filter(|number| (min..=max).contains(number))
                    .map(Value::Number),
                Kind::Switch => read_switch(bare).map(Value::Switch),
                Kind::Time { min, max } => {
                    read_time(bare).filter(|t| (min..=max).contains(t)).map(Value::Time)
                }
                Kind::Choice(names) => {
                    names.iter().position(|name| name.eq_ignore_ascii_case(bare)).map(Value::Choice)
                }
                // What the environment held was not text when this mark stands in it.
                Kind::Text => (!text.contains(char::REPLACEMENT_CHARACTER))
                    .then(|| Value::Text(text.to_owned())),
            }
        };
        read.ok_or_else(|| BadValue {
            name: self.name.to_owned(),
            value: text.to_owned(),
            expected: self.form(),
            default: self.show_default(),
        })
    }
}

/// Types that a setting can have.
pub trait SettingType: Sized {
    /// The value as it is held.
    #[doc(hidden)]
    fn into_value(self) -> Value<String>;
    /// The value as it is used; the setting's constructor has fixed its kind.
    #[doc(hidden)]
    fn from_value(value: &Value<String>) -> Self;
}

macro_rules! setting_type {
    ($type:ty, $make:expr, $value:pat => $take:expr) => {
        impl SettingType for $type {
            fn into_value(self) -> Value<String> {
                $make(self)
            }
            fn from_value(value: &Value<String>) -> Self {
                match value {
                    $value => $take,
                    other => wrong_kind(other),
                }
            }
        }
    };
}

#[cold]
fn wrong_kind(value: &Value<String>) -> ! {
    panic!("a setting's constructor fixes the kind of its values, yet it holds {value:?}")
}

setting_type!(bool, Value::Switch, Value::Switch(on) => *on);
setting_type!(Duration, Value::Time, Value::Time(time) => *time);
setting_type!(String, Value::Text, Value::Text(text) => text.clone());
// The constructors bound the range to that of the type, so the conversions are exact.
setting_type!(u32, |number| Value::Number(u64::from(number)), Value::Number(number) => *number as u32);
setting_type!(usize, |number| Value::Number(number as u64), Value::Number(number) => *number as usize);

impl<T: SettingType> SettingType for Option<T> {
    fn into_value(self) -> Value<String> {
        self.map_or(Value::Auto, T::into_value)
    }
    fn from_value(value: &Value<String>) -> Self {
        if *value == Value::Auto { None } else { Some(T::from_value(value)) }
    }
}

/// An enumeration whose variants are words in the environment; made by
/// [`choice!`](crate::choice!).
pub trait Choice: Copy + 'static {
    /// The words.
    const NAMES: &'static [&'static str];
    /// The variants, in the same order.
    const VALUES: &'static [Self];
}

/// A setting with its type: a name, a default, a form, and what one should know of it.
///
/// Declared by [`settings!`](crate::settings!). A constructor checks the default against the
/// bounds when the constant is compiled.
#[derive(Debug)]
pub struct Setting<T> {
    descriptor: Descriptor,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Setting<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Setting<T> {}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn has_prefix(name: &str) -> bool {
    let (name, prefix) = (name.as_bytes(), PREFIX.as_bytes());
    if name.len() <= prefix.len() {
        return false;
    }
    let mut i = 0;
    while i < prefix.len() {
        if name[i] != prefix[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl<T> Setting<T> {
    const fn new(name: &'static str, default: Value<&'static str>, kind: Kind, auto: bool) -> Self {
        assert!(has_prefix(name), "the name of a setting starts with BOWLINE_");
        let descriptor = Descriptor { name, default, kind, auto, doc: "", cost: "", change: "" };
        Self { descriptor, kind: PhantomData }
    }

    /// Says what the setting costs or trades.
    #[must_use]
    pub const fn cost(mut self, cost: &'static str) -> Self {
        self.descriptor.cost = cost;
        self
    }

    /// Says when to change it.
    #[must_use]
    pub const fn change(mut self, change: &'static str) -> Self {
        self.descriptor.change = change;
        self
    }

    /// Says what it is; the macro takes this from the documentation comment.
    #[doc(hidden)]
    #[must_use]
    pub const fn doc(mut self, doc: &'static str) -> Self {
        self.descriptor.doc = doc;
        self
    }

    /// The variable.
    pub const fn name(&self) -> &'static str {
        self.descriptor.name
    }

    /// The setting as a table holds it.
    pub const fn descriptor(&self) -> Descriptor {
        assert!(!self.descriptor.doc.is_empty(), "a setting needs a sentence");
        assert!(!self.descriptor.cost.is_empty(), "a setting says what it costs");
        assert!(!self.descriptor.change.is_empty(), "a setting says when to change it");
        self.descriptor
    }
}

impl Setting<usize> {
    /// A size in bytes from `min` to `max`.
    pub const fn bytes(name: &'static str, default: usize, min: usize, max: usize) -> Self {
        assert!(min <= default && default <= max, "the default lies within the bounds");
        let kind = Kind::Bytes { min: min as u64, max: max as u64 };
        Self::new(name, Value::Number(default as u64), kind, false)
    }
}

impl Setting<Option<usize>> {
    /// A size in bytes from `min` to `max`, or `auto` (`None`), which is the default.
    pub const fn bytes_or_auto(name: &'static str, min: usize, max: usize) -> Self {
        assert!(min <= max, "the bounds are in order");
        let kind = Kind::Bytes { min: min as u64, max: max as u64 };
        Self::new(name, Value::Auto, kind, true)
    }
}

impl Setting<u32> {
    /// A whole number from `min` to `max`.
    pub const fn integer(name: &'static str, default: u32, min: u32, max: u32) -> Self {
        assert!(min <= default && default <= max, "the default lies within the bounds");
        let kind = Kind::Integer { min: min as u64, max: max as u64 };
        Self::new(name, Value::Number(default as u64), kind, false)
    }
}

impl Setting<bool> {
    /// Yes or no.
    pub const fn switch(name: &'static str, default: bool) -> Self {
        Self::new(name, Value::Switch(default), Kind::Switch, false)
    }
}

impl Setting<Option<bool>> {
    /// Yes, no, or `auto` (`None`), which is the default.
    pub const fn switch_or_auto(name: &'static str) -> Self {
        Self::new(name, Value::Auto, Kind::Switch, true)
    }
}

impl Setting<Duration> {
    /// A time from `min` to `max`.
    pub const fn time(name: &'static str, default: Duration, min: Duration, max: Duration) -> Self {
        let nanos = default.as_nanos();
        assert!(
            min.as_nanos() <= nanos && nanos <= max.as_nanos(),
            "the default lies within the bounds"
        );
        Self::new(name, Value::Time(default), Kind::Time { min, max }, false)
    }
}

impl Setting<String> {
    /// Any text.
    pub const fn text(name: &'static str, default: &'static str) -> Self {
        Self::new(name, Value::Text(default), Kind::Text, false)
    }
}

impl<T: Choice> Setting<T> {
    /// One of the words of `T`.
    pub const fn choice(name: &'static str, default: &'static str) -> Self {
        let names = T::NAMES;
        let mut index = 0;
        while !same(names[index], default) {
            index += 1;
            assert!(index < names.len(), "the default is one of the words");
        }
        Self::new(name, Value::Choice(index), Kind::Choice(names), false)
    }
}

/// Declares settings and the table of them.
///
/// ```
/// use bowline_base::config::{Config, Setting};
///
/// bowline_base::settings! {
///     /// Settings of the example.
///     pub const SETTINGS = [
///         /// Slots of a ring.
///         pub SLOTS: u32 = Setting::<u32>::integer("BOWLINE_EXAMPLE_SLOTS", 64, 2, 4096)
///             .cost("64 bytes of shared memory per slot and hot peer")
///             .change("raise it when senders report NoResource in bursts");
///     ];
/// }
///
/// let config = Config::from_pairs([("BOWLINE_EXAMPLE_SLOTS", "128")], &[SETTINGS]).unwrap();
/// assert_eq!(config.get(SLOTS), 128);
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$outer:meta])*
        $table_visibility:vis const $table:ident = [
            $(
                $(#[doc = $doc:literal])+
                $visibility:vis $name:ident : $type:ty = $setting:expr;
            )*
        ];
    ) => {
        $(
            $(#[doc = $doc])+
            $visibility const $name: $crate::config::Setting<$type> =
                ($setting).doc($crate::counters::sentence(concat!($($doc),+)));
        )*
        $(#[$outer])*
        $table_visibility const $table: &[$crate::config::Descriptor] =
            &[$($name.descriptor()),*];
    };
}

/// Declares an enumeration whose variants are the words of a setting.
///
/// ```
/// bowline_base::choice! {
///     /// How progress is made.
///     pub enum Progress {
///         /// Only inside calls.
///         None = "none",
///         /// By a thread of its own.
///         Thread = "thread",
///     }
/// }
/// assert_eq!(<Progress as bowline_base::config::Choice>::NAMES, ["none", "thread"]);
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[$outer:meta])*
        $visibility:vis enum $type:ident {
            $( $(#[$inner:meta])+ $variant:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $type {
            $( $(#[$inner])+ $variant, )+
        }

        impl $crate::config::Choice for $type {
            const NAMES: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$(Self::$variant),+];
        }

        impl $crate::config::SettingType for $type {
            fn into_value(self) -> $crate::config::Value<String> {
                $crate::config::Value::Choice(self as usize)
            }
            fn from_value(value: &$crate::config::Value<String>) -> Self {
                match value {
                    $crate::config::Value::Choice(index) => {
                        <Self as $crate::config::Choice>::VALUES[*index]
                    }
                    other => panic!("a choice holds the place of a word, not {other:?}"),
                }
            }
        }
    };
}
