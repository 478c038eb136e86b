//! Chapter: error classes, codes and their texts.

use std::ffi::c_int;

use crate::arg::{Out, Text, TextOut};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::library::codes::{class_of, codes, text_of};

mpi! {
    any fn MPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) {
        errorclass.set(class_of(errorcode).ok_or_else(|| unknown(errorcode))?)
    }

    any fn MPI_Error_string(errorcode: c_int, string: TextOut, resultlen: Out<c_int>) {
        let text = text_of(errorcode).ok_or_else(|| unknown(errorcode))?;
        let len = string.set(&text, MPI_MAX_ERROR_STRING as usize)?;
        resultlen.set(len as c_int)
    }

    any fn MPI_Add_error_class(errorclass: Out<c_int>) {
        check_address(errorclass)?;
        errorclass.set(codes().add(None))
    }

    any fn MPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) {
        check_address(errorcode)?;
        if class_of(errorclass) != Some(errorclass) {
            return Err(fault(MPI_ERR_ARG, format!("{errorclass} is no error class")));
        }
        errorcode.set(codes().add(Some(errorclass)))
    }

    any fn MPI_Add_error_string(errorcode: c_int, string: Text) {
        let mut text = string.bytes()?;
        text.truncate(MPI_MAX_ERROR_STRING as usize - 1);
        codes().own(errorcode)?.text = text;
        Ok(())
    }

    any fn MPI_Remove_error_class(errorclass: c_int) {
        let mut codes = codes();
        codes.check_without_text(errorclass)?;
        if codes.own(errorclass)?.class != errorclass {
            return Err(fault(MPI_ERR_ARG, format!("{errorclass} is a code and no class")));
        }
        if codes.own.values().filter(|own| own.class == errorclass).count() > 1 {
            let text = format!("the class {errorclass} has codes still; remove them first");
            return Err(fault(MPI_ERR_ARG, text));
        }
        codes.own.remove(&errorclass);
        codes.publish();
        Ok(())
    }

    any fn MPI_Remove_error_code(errorcode: c_int) {
        let mut codes = codes();
        codes.check_without_text(errorcode)?;
        if codes.own(errorcode)?.class == errorcode {
            return Err(fault(MPI_ERR_ARG, format!("{errorcode} is a class and no code")));
        }
        codes.own.remove(&errorcode);
        codes.publish();
        Ok(())
    }

    any fn MPI_Remove_error_string(errorcode: c_int) {
        codes().own(errorcode)?.text.clear();
        Ok(())
    }
}

/// A result that cannot be returned must not be made.
fn check_address(out: Out<c_int>) -> Result<(), Fault> {
    if out.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the result"));
    }
    Ok(())
}

fn unknown(code: c_int) -> Fault {
    fault(MPI_ERR_ARG, format!("{code} is no error code"))
}
