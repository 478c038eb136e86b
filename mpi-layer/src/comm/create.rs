//! How communicators are made of others, of groups, and of parts of both.

use std::rc::Rc;

use super::agree::agree_among;
use super::{CommInner, Communicator};
use crate::consts::UNDEFINED;
use crate::error::MpiError;
use crate::group::Group;

impl Communicator {
    /// A communicator of the same ranks with contexts of its own, and with the topology if there is one. Collective.
    /// (`MPI_Comm_dup`)
    ///
    /// # Errors
    /// [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn dup(&self) -> Result<Self, MpiError> {
        self.dup_with_algorithms(&[])
    }

    /// [`dup`](Self::dup) that asks for algorithms of its collectives, as
    /// [`set_algorithms`](Self::set_algorithms) does. (`MPI_Comm_dup_with_info`)
    ///
    /// # Errors
    /// As for [`dup`](Self::dup) and [`set_algorithms`](Self::set_algorithms).
    pub fn dup_with_algorithms(&self, asked: &[(&str, &str)]) -> Result<Self, MpiError> {
        let (wanted, choice) = self.asked_with(asked);
        let agreed = self.agree(choice);
        let wanted = wanted?;
        let made = CommInner::open(&self.inner.process, self.inner.group.clone(), agreed?)?;
        made.take_algorithms(wanted);
        made.inherit_topology(self.inherited_topology().as_ref());
        Ok(made)
    }

    /// Splits the communicator: ranks that give the same colour end in one communicator, ordered
    /// by key and, among equal keys, by rank. With colour [`UNDEFINED`] the result is `None`.
    /// Collective. (`MPI_Comm_split`)
    ///
    /// # Errors
    /// [`MpiError::InvalidColor`], and [`MpiError::MemberGaveUp`] at the other ranks then;
    /// [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn split(&self, color: i32, key: i32) -> Result<Option<Self>, MpiError> {
        let is_one = color >= 0 || color == UNDEFINED;
        let color =
            is_one.then(|| u64::try_from(color).ok()).ok_or(MpiError::InvalidColor { color });
        self.split_by(color, key)
    }

    /// Splits into communicators of ranks that share memory, ordered by key. Collective.
    /// (`MPI_Comm_split_type` with `MPI_COMM_TYPE_SHARED`)
    ///
    /// # Errors
    /// As for [`split`](Self::split).
    pub fn split_shared(&self, key: i32) -> Result<Self, MpiError> {
        let part = self.split_wide(Some(self.inner.process.node_id), key)?;
        Ok(part.expect("a rank with a colour is in a part"))
    }

    /// What is the same for all ranks that share memory with this one and different for all others: a
    /// colour for [`split_wide`](Self::split_wide).
    pub fn node(&self) -> u64 {
        self.inner.process.node_id
    }

    /// [`split`](Self::split) by colours of 64 bits; `None` stands for [`UNDEFINED`].
    ///
    /// # Errors
    /// As for [`split`](Self::split).
    pub fn split_wide(&self, color: Option<u64>, key: i32) -> Result<Option<Self>, MpiError> {
        self.split_by(Ok(color), key)
    }

    /// The same. A rank without a valid colour takes part, and so does one whose gathering of colours fails: the others
    /// wait for it in the agreement, and fail there as well.
    fn split_by(
        &self,
        color: Result<Option<u64>, MpiError>,
        key: i32,
    ) -> Result<Option<Self>, MpiError> {
        let asked = color.as_ref().ok().copied().flatten();
        let own = [u64::from(asked.is_some()), asked.unwrap_or(0), u64::from(key as u32)];
        let mut all = vec![[0; 3]; self.inner.size as usize];
        let alike = self.compare_choices();
        let gathered = alike.and_then(|()| self.allgather(&[own], &mut all)).and(color);
        let choice = self.inner.process.collectives.hash();
        let agreed = self.agree_after(choice, gathered.is_err());
        if gathered?.is_none() {
            return agreed.map(|_| None);
        }
        let agreed = agreed?;
        let chosen =
            all.iter().zip(0..).filter(|([some, color, _], _)| [*some, *color] == own[..2]);
        let mut members: Vec<(i32, u32)> =
            chosen.map(|(&[_, _, key], rank)| (key as u32 as i32, rank)).collect();
        members.sort_unstable();
        let world = |(_, rank)| {
            self.inner.group.world_rank(rank).expect("ranks below the size are in the group")
        };
        let group = Group::from_world_ranks(members.into_iter().map(world).collect());
        CommInner::open(&self.inner.process, group, agreed).map(Some)
    }

    /// The communicator of `group`, whose members must be members of this one; `None` at ranks
    /// outside. Collective over this communicator; the ranks of a group give the same one, and groups
    /// that differ have no rank in common. (`MPI_Comm_create`)
    ///
    /// # Errors
    /// [`MpiError::InvalidGroup`] when the group reaches beyond the communicator, and
    /// [`MpiError::MemberGaveUp`] at the others then; [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn create(&self, group: &Group) -> Result<Option<Self>, MpiError> {
        let contained = self.contains(group);
        let agreed = self.agree_after(self.inner.process.collectives.hash(), contained.is_err());
        contained?;
        let agreed = agreed?;
        let process = &self.inner.process;
        let member = group.position(process.world_rank).is_some();
        member.then(|| CommInner::open(process, group.clone(), agreed)).transpose()
    }

    /// The same, collective over the group alone: other ranks need not call it, and get `None` at once
    /// if they do. Calls of threads or groups that are made at the same time and have ranks in common
    /// have different tags. (`MPI_Comm_create_group`)
    ///
    /// # Errors
    /// As for [`create`](Self::create), and [`MpiError::InvalidTag`].
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Self>, MpiError> {
        if tag < 0 {
            return Err(MpiError::InvalidTag { tag });
        }
        self.contains(group)?;
        let inner = &self.inner;
        if group.position(inner.process.world_rank).is_none() {
            return Ok(None);
        }
        let what = (1_u8, inner.context, inner.generation, tag);
        let agreed = agree_among(&inner.process, group, &what, inner.oversubscribed)?;
        CommInner::open(&inner.process, group.clone(), agreed).map(Some)
    }

    /// The communicator of a group of this rank's world, which has no other communicator in common:
    /// collective over the group, of which this rank must be a member. Any communicator of the rank
    /// serves to find its world. Calls that are made at the same time have different words for `tag`.
    /// (`MPI_Comm_create_from_group`)
    ///
    /// # Errors
    /// [`MpiError::InvalidGroup`] when this rank is not in the group,
    /// [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn create_from_group(&self, group: &Group, tag: &[u8]) -> Result<Self, MpiError> {
        let process = &self.inner.process;
        if group.position(process.world_rank).is_none() {
            let rank = process.world_rank as i32;
            return Err(MpiError::InvalidGroup { rank, size: group.size() });
        }
        let agreed = agree_among(process, group, &(2_u8, tag), self.inner.oversubscribed)?;
        CommInner::open(process, group.clone(), agreed)
    }

    /// Whether two are the same one.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }

    /// An error unless all members of the group are in the communicator.
    fn contains(&self, group: &Group) -> Result<(), MpiError> {
        let parent = &self.inner.group;
        let outsider = group.world_ranks().find(|&rank| parent.position(rank).is_none());
        outsider.map_or(Ok(()), |rank| {
            Err(MpiError::InvalidGroup { rank: rank as i32, size: self.inner.size })
        })
    }
}
