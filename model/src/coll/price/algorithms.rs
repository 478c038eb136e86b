//! Algorithms of a collective on all ranks and in layers under one type, and their names.

use crate::coll::forms::{Form, Tree};
use crate::coll::layers::Layered;

/// An algorithm on all ranks, or in layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds")]
pub enum Algorithm<F> {
    /// On all ranks.
    Form(F),
    /// Within nodes, among nodes, within nodes.
    Layered(Layered<F>),
}

/// The begin of the name of an algorithm in layers: then comes the tree within nodes, then the algorithm among them.
pub(crate) const NODES: &str = "nodes:";

impl<F> Algorithm<F> {
    /// Its name as settings take it, where `name` has those of its algorithms: `nodes:binomial:chain` goes down a binomial
    /// tree within nodes and along a chain among them.
    pub fn name_by(&self, name: impl Fn(&F) -> String) -> String {
        match self {
            Self::Form(form) => name(form),
            Self::Layered(Layered { within, among }) => {
                format!("{NODES}{}:{}", within.name(), name(among))
            }
        }
    }
}

impl<F: Form> Algorithm<F> {
    /// Its name as settings take it.
    pub fn name(&self) -> String {
        self.name_by(|form| form.name())
    }

    /// The algorithm with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        let Some(layers) = name.strip_prefix(NODES) else {
            return F::of_name(name).map(Self::Form);
        };
        let (within, among) = layers.split_once(':')?;
        let (within, among) = (Tree::of_name(within)?, F::of_name(among)?);
        Some(Self::Layered(Layered { within, among }))
    }
}
