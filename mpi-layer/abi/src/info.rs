//! Chapter: information, pairs of a key and a value.

use std::ffi::{c_char, c_int};

use crate::arg::{In, Out, Text, TextOut};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Info;
use crate::library::infos::{Pairs, change, environment, give, infos, not_info, pairs};

/// A key that is one.
fn checked_key(key: Text) -> Result<Vec<u8>, Fault> {
    let key = key.bytes()?;
    if key.is_empty() || key.len() >= MPI_MAX_INFO_KEY as usize {
        let text =
            format!("the key has {} bytes; it may have 1 to {}", key.len(), MPI_MAX_INFO_KEY - 1);
        return Err(fault(MPI_ERR_INFO_KEY, text));
    }
    Ok(key)
}

mpi! {
    any fn MPI_Info_create(info: Out<Info>) {
        give(Pairs::default(), info)
    }

    any fn MPI_Info_create_env(argc: c_int, argv: In<In<c_char>>, info: Out<Info>) {
        let count = usize::try_from(argc)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the number of arguments is {argc}")))?;
        let words = if argv.is_null() { Vec::new() } else { argv.array(count)? };
        let words: Vec<Vec<u8>> = words
            .into_iter()
            .take_while(|word| !word.is_null())
            .map(|word| Text::of(word).bytes())
            .collect::<Result<_, _>>()?;
        give(environment(&words), info)
    }

    any fn MPI_Info_set(info: Info, key: Text, value: Text) {
        pairs(info)?;
        let (key, value) = (checked_key(key)?, value.bytes()?);
        if value.len() >= MPI_MAX_INFO_VAL as usize {
            let text = format!("the value has {} bytes, more than {}", value.len(), MPI_MAX_INFO_VAL - 1);
            return Err(fault(MPI_ERR_INFO_VALUE, text));
        }
        change(info, |pairs| pairs.set(&key, &value))
    }

    any fn MPI_Info_delete(info: Info, key: Text) {
        pairs(info)?;
        let key = checked_key(key)?;
        if change(info, |pairs| pairs.remove(&key))? {
            return Ok(());
        }
        let text = format!("there is no key {:?}", String::from_utf8_lossy(&key));
        Err(fault(MPI_ERR_INFO_NOKEY, text))
    }

    any fn MPI_Info_get(info: Info, key: Text, valuelen: c_int, value: TextOut, flag: Out<c_int>) {
        let (pairs, key) = (pairs(info)?, checked_key(key)?);
        let space = usize::try_from(valuelen)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the capacity for the value is {valuelen}")))?;
        let found = pairs.get(&key);
        if let Some(found) = found {
            // The byte behind the value is not counted.
            value.set(found, space.saturating_add(1))?;
        }
        flag.set(found.is_some().into())
    }

    any fn MPI_Info_get_string(info: Info, key: Text, buflen: Out<c_int>, value: TextOut,
                               flag: Out<c_int>) {
        let (pairs, key) = (pairs(info)?, checked_key(key)?);
        let given = buflen.get()?;
        let space = usize::try_from(given)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the capacity for the value is {given}")))?;
        let found = pairs.get(&key);
        if let Some(found) = found {
            if space > 0 {
                value.set(found, space)?;
            }
            // Values are short; see `MPI_Info_set`.
            buflen.set(found.len() as c_int + 1)?;
        }
        flag.set(found.is_some().into())
    }

    any fn MPI_Info_get_valuelen(info: Info, key: Text, valuelen: Out<c_int>, flag: Out<c_int>) {
        let (pairs, key) = (pairs(info)?, checked_key(key)?);
        let found = pairs.get(&key);
        if let Some(found) = found {
            valuelen.set(found.len() as c_int)?;
        }
        flag.set(found.is_some().into())
    }

    any fn MPI_Info_get_nkeys(info: Info, nkeys: Out<c_int>) {
        nkeys.set(pairs(info)?.0.len() as c_int)
    }

    any fn MPI_Info_get_nthkey(info: Info, n: c_int, key: TextOut) {
        let pairs = pairs(info)?;
        let count = pairs.0.len();
        let nth = usize::try_from(n).ok().and_then(|n| pairs.0.get(n));
        let (found, _) =
            nth.ok_or_else(|| fault(MPI_ERR_ARG, format!("there is no key {n} of {count}")))?;
        key.set(found, MPI_MAX_INFO_KEY as usize)?;
        Ok(())
    }

    any fn MPI_Info_dup(info: Info, newinfo: Out<Info>) {
        give(pairs(info)?, newinfo)
    }

    any fn MPI_Info_free(info: Out<Info>) {
        let freed = info.get()?;
        if freed == MPI_INFO_ENV {
            return Err(fault(MPI_ERR_INFO, "MPI_INFO_ENV cannot be freed"));
        }
        infos().remove(freed.0).ok_or_else(|| not_info(freed))?;
        info.set(MPI_INFO_NULL)
    }
}
