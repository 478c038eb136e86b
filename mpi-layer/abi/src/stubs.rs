//! Functions that no chapter has. Made by `cargo xtask abi`; do not edit.

use std::ffi::{c_int, c_void};

use crate::entry::{stub, tool_stub};
use crate::generated::constants::MPI_FILE_NULL;
use crate::handle::*;

stub! { fn MPI_Accumulate(a0: *const c_void, a1: c_int, a2: Datatype, a3: c_int, a4: Aint, a5: c_int, a6: Datatype, a7: Op, a8: Win) on a8 }
stub! { fn MPI_Accumulate_c(a0: *const c_void, a1: Count, a2: Datatype, a3: c_int, a4: Aint, a5: Count, a6: Datatype, a7: Op, a8: Win) on a8 }
stub! { fn MPI_Close_port(a0: *const c_void) }
stub! { fn MPI_Comm_accept(a0: *const c_void, a1: Info, a2: c_int, a3: Comm, a4: *const c_void) on a3 }
stub! { fn MPI_Comm_connect(a0: *const c_void, a1: Info, a2: c_int, a3: Comm, a4: *const c_void) on a3 }
stub! { fn MPI_Comm_join(a0: c_int, a1: *const c_void) }
stub! { fn MPI_Comm_spawn(a0: *const c_void, a1: *const c_void, a2: c_int, a3: Info, a4: c_int, a5: Comm, a6: *const c_void, a7: *const c_void) on a5 }
stub! { fn MPI_Comm_spawn_multiple(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void, a5: c_int, a6: Comm, a7: *const c_void, a8: *const c_void) on a6 }
stub! { fn MPI_Compare_and_swap(a0: *const c_void, a1: *const c_void, a2: *const c_void, a3: Datatype, a4: c_int, a5: Aint, a6: Win) on a6 }
stub! { fn MPI_Fetch_and_op(a0: *const c_void, a1: *const c_void, a2: Datatype, a3: c_int, a4: Aint, a5: Op, a6: Win) on a6 }
stub! { fn MPI_File_close(a0: *const c_void) }
stub! { fn MPI_File_delete(a0: *const c_void, a1: Info) on MPI_FILE_NULL }
stub! { fn MPI_File_get_amode(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_atomicity(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_byte_offset(a0: File, a1: Count, a2: *const c_void) on a0 }
stub! { fn MPI_File_get_group(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_info(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_position(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_position_shared(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_size(a0: File, a1: *const c_void) on a0 }
stub! { fn MPI_File_get_type_extent(a0: File, a1: Datatype, a2: *const c_void) on a0 }
stub! { fn MPI_File_get_type_extent_c(a0: File, a1: Datatype, a2: *const c_void) on a0 }
stub! { fn MPI_File_get_view(a0: File, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void) on a0 }
stub! { fn MPI_File_iread(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iread_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iread_all(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iread_all_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iread_at(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iread_at_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iread_at_all(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iread_at_all_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iread_shared(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iread_shared_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iwrite(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_all(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_all_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_at(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_at_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_at_all(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_at_all_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_shared(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_iwrite_shared_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_open(a0: Comm, a1: *const c_void, a2: c_int, a3: Info, a4: *const c_void) on MPI_FILE_NULL }
stub! { fn MPI_File_preallocate(a0: File, a1: Count) on a0 }
stub! { fn MPI_File_read(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_all(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_all_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_all_begin(a0: File, a1: *const c_void, a2: c_int, a3: Datatype) on a0 }
stub! { fn MPI_File_read_all_begin_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype) on a0 }
stub! { fn MPI_File_read_all_end(a0: File, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_File_read_at(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_read_at_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_read_at_all(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_read_at_all_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_read_at_all_begin(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype) on a0 }
stub! { fn MPI_File_read_at_all_begin_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype) on a0 }
stub! { fn MPI_File_read_at_all_end(a0: File, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_File_read_ordered(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_ordered_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_ordered_begin(a0: File, a1: *const c_void, a2: c_int, a3: Datatype) on a0 }
stub! { fn MPI_File_read_ordered_begin_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype) on a0 }
stub! { fn MPI_File_read_ordered_end(a0: File, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_File_read_shared(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_read_shared_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_seek(a0: File, a1: Count, a2: c_int) on a0 }
stub! { fn MPI_File_seek_shared(a0: File, a1: Count, a2: c_int) on a0 }
stub! { fn MPI_File_set_atomicity(a0: File, a1: c_int) on a0 }
stub! { fn MPI_File_set_info(a0: File, a1: Info) on a0 }
stub! { fn MPI_File_set_size(a0: File, a1: Count) on a0 }
stub! { fn MPI_File_set_view(a0: File, a1: Count, a2: Datatype, a3: Datatype, a4: *const c_void, a5: Info) on a0 }
stub! { fn MPI_File_sync(a0: File) on a0 }
stub! { fn MPI_File_write(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_all(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_all_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_all_begin(a0: File, a1: *const c_void, a2: c_int, a3: Datatype) on a0 }
stub! { fn MPI_File_write_all_begin_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype) on a0 }
stub! { fn MPI_File_write_all_end(a0: File, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_File_write_at(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_write_at_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_write_at_all(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_write_at_all_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype, a5: *const c_void) on a0 }
stub! { fn MPI_File_write_at_all_begin(a0: File, a1: Count, a2: *const c_void, a3: c_int, a4: Datatype) on a0 }
stub! { fn MPI_File_write_at_all_begin_c(a0: File, a1: Count, a2: *const c_void, a3: Count, a4: Datatype) on a0 }
stub! { fn MPI_File_write_at_all_end(a0: File, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_File_write_ordered(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_ordered_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_ordered_begin(a0: File, a1: *const c_void, a2: c_int, a3: Datatype) on a0 }
stub! { fn MPI_File_write_ordered_begin_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype) on a0 }
stub! { fn MPI_File_write_ordered_end(a0: File, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_File_write_shared(a0: File, a1: *const c_void, a2: c_int, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_File_write_shared_c(a0: File, a1: *const c_void, a2: Count, a3: Datatype, a4: *const c_void) on a0 }
stub! { fn MPI_Get(a0: *const c_void, a1: c_int, a2: Datatype, a3: c_int, a4: Aint, a5: c_int, a6: Datatype, a7: Win) on a7 }
stub! { fn MPI_Get_c(a0: *const c_void, a1: Count, a2: Datatype, a3: c_int, a4: Aint, a5: Count, a6: Datatype, a7: Win) on a7 }
stub! { fn MPI_Get_accumulate(a0: *const c_void, a1: c_int, a2: Datatype, a3: *const c_void, a4: c_int, a5: Datatype, a6: c_int, a7: Aint, a8: c_int, a9: Datatype, a10: Op, a11: Win) on a11 }
stub! { fn MPI_Get_accumulate_c(a0: *const c_void, a1: Count, a2: Datatype, a3: *const c_void, a4: Count, a5: Datatype, a6: c_int, a7: Aint, a8: Count, a9: Datatype, a10: Op, a11: Win) on a11 }
stub! { fn MPI_Intercomm_create(a0: Comm, a1: c_int, a2: Comm, a3: c_int, a4: c_int, a5: *const c_void) on a0 }
stub! { any fn MPI_Intercomm_create_from_groups(a0: Group, a1: c_int, a2: Group, a3: c_int, a4: *const c_void, a5: Info, a6: Errhandler, a7: *const c_void) }
stub! { fn MPI_Lookup_name(a0: *const c_void, a1: Info, a2: *const c_void) }
stub! { fn MPI_Open_port(a0: Info, a1: *const c_void) }
stub! { fn MPI_Parrived(a0: Request, a1: c_int, a2: *const c_void) }
stub! { fn MPI_Pready(a0: c_int, a1: Request) }
stub! { fn MPI_Pready_list(a0: c_int, a1: *const c_void, a2: Request) }
stub! { fn MPI_Pready_range(a0: c_int, a1: c_int, a2: Request) }
stub! { fn MPI_Precv_init(a0: *const c_void, a1: c_int, a2: c_int, a3: Datatype, a4: c_int, a5: c_int, a6: Comm, a7: Info, a8: *const c_void) on a6 }
stub! { fn MPI_Precv_init_c(a0: *const c_void, a1: c_int, a2: Count, a3: Datatype, a4: c_int, a5: c_int, a6: Comm, a7: Info, a8: *const c_void) on a6 }
stub! { fn MPI_Psend_init(a0: *const c_void, a1: c_int, a2: c_int, a3: Datatype, a4: c_int, a5: c_int, a6: Comm, a7: Info, a8: *const c_void) on a6 }
stub! { fn MPI_Psend_init_c(a0: *const c_void, a1: c_int, a2: Count, a3: Datatype, a4: c_int, a5: c_int, a6: Comm, a7: Info, a8: *const c_void) on a6 }
stub! { fn MPI_Publish_name(a0: *const c_void, a1: Info, a2: *const c_void) }
stub! { fn MPI_Put(a0: *const c_void, a1: c_int, a2: Datatype, a3: c_int, a4: Aint, a5: c_int, a6: Datatype, a7: Win) on a7 }
stub! { fn MPI_Put_c(a0: *const c_void, a1: Count, a2: Datatype, a3: c_int, a4: Aint, a5: Count, a6: Datatype, a7: Win) on a7 }
stub! { fn MPI_Raccumulate(a0: *const c_void, a1: c_int, a2: Datatype, a3: c_int, a4: Aint, a5: c_int, a6: Datatype, a7: Op, a8: Win, a9: *const c_void) on a8 }
stub! { fn MPI_Raccumulate_c(a0: *const c_void, a1: Count, a2: Datatype, a3: c_int, a4: Aint, a5: Count, a6: Datatype, a7: Op, a8: Win, a9: *const c_void) on a8 }
stub! { fn MPI_Register_datarep(a0: *const c_void, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void) on MPI_FILE_NULL }
stub! { fn MPI_Register_datarep_c(a0: *const c_void, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void) on MPI_FILE_NULL }
stub! { fn MPI_Rget(a0: *const c_void, a1: c_int, a2: Datatype, a3: c_int, a4: Aint, a5: c_int, a6: Datatype, a7: Win, a8: *const c_void) on a7 }
stub! { fn MPI_Rget_c(a0: *const c_void, a1: Count, a2: Datatype, a3: c_int, a4: Aint, a5: Count, a6: Datatype, a7: Win, a8: *const c_void) on a7 }
stub! { fn MPI_Rget_accumulate(a0: *const c_void, a1: c_int, a2: Datatype, a3: *const c_void, a4: c_int, a5: Datatype, a6: c_int, a7: Aint, a8: c_int, a9: Datatype, a10: Op, a11: Win, a12: *const c_void) on a11 }
stub! { fn MPI_Rget_accumulate_c(a0: *const c_void, a1: Count, a2: Datatype, a3: *const c_void, a4: Count, a5: Datatype, a6: c_int, a7: Aint, a8: Count, a9: Datatype, a10: Op, a11: Win, a12: *const c_void) on a11 }
stub! { fn MPI_Rput(a0: *const c_void, a1: c_int, a2: Datatype, a3: c_int, a4: Aint, a5: c_int, a6: Datatype, a7: Win, a8: *const c_void) on a7 }
stub! { fn MPI_Rput_c(a0: *const c_void, a1: Count, a2: Datatype, a3: c_int, a4: Aint, a5: Count, a6: Datatype, a7: Win, a8: *const c_void) on a7 }
stub! { fn MPI_Unpublish_name(a0: *const c_void, a1: Info, a2: *const c_void) }
stub! { fn MPI_Win_allocate(a0: Aint, a1: c_int, a2: Info, a3: Comm, a4: *const c_void, a5: *const c_void) on a3 }
stub! { fn MPI_Win_allocate_c(a0: Aint, a1: Aint, a2: Info, a3: Comm, a4: *const c_void, a5: *const c_void) on a3 }
stub! { fn MPI_Win_allocate_shared(a0: Aint, a1: c_int, a2: Info, a3: Comm, a4: *const c_void, a5: *const c_void) on a3 }
stub! { fn MPI_Win_allocate_shared_c(a0: Aint, a1: Aint, a2: Info, a3: Comm, a4: *const c_void, a5: *const c_void) on a3 }
stub! { fn MPI_Win_attach(a0: Win, a1: *const c_void, a2: Aint) on a0 }
stub! { fn MPI_Win_call_errhandler(a0: Win, a1: c_int) on a0 }
stub! { fn MPI_Win_complete(a0: Win) on a0 }
stub! { fn MPI_Win_create(a0: *const c_void, a1: Aint, a2: c_int, a3: Info, a4: Comm, a5: *const c_void) on a4 }
stub! { fn MPI_Win_create_c(a0: *const c_void, a1: Aint, a2: Aint, a3: Info, a4: Comm, a5: *const c_void) on a4 }
stub! { fn MPI_Win_create_dynamic(a0: Info, a1: Comm, a2: *const c_void) on a1 }
stub! { fn MPI_Win_delete_attr(a0: Win, a1: c_int) on a0 }
stub! { fn MPI_Win_detach(a0: Win, a1: *const c_void) on a0 }
stub! { fn MPI_Win_fence(a0: c_int, a1: Win) on a1 }
stub! { fn MPI_Win_flush(a0: c_int, a1: Win) on a1 }
stub! { fn MPI_Win_flush_all(a0: Win) on a0 }
stub! { fn MPI_Win_flush_local(a0: c_int, a1: Win) on a1 }
stub! { fn MPI_Win_flush_local_all(a0: Win) on a0 }
stub! { fn MPI_Win_free(a0: *const c_void) }
stub! { fn MPI_Win_get_attr(a0: Win, a1: c_int, a2: *const c_void, a3: *const c_void) on a0 }
stub! { fn MPI_Win_get_errhandler(a0: Win, a1: *const c_void) on a0 }
stub! { fn MPI_Win_get_group(a0: Win, a1: *const c_void) on a0 }
stub! { fn MPI_Win_get_info(a0: Win, a1: *const c_void) on a0 }
stub! { fn MPI_Win_get_name(a0: Win, a1: *const c_void, a2: *const c_void) on a0 }
stub! { fn MPI_Win_lock(a0: c_int, a1: c_int, a2: c_int, a3: Win) on a3 }
stub! { fn MPI_Win_lock_all(a0: c_int, a1: Win) on a1 }
stub! { fn MPI_Win_post(a0: Group, a1: c_int, a2: Win) on a2 }
stub! { fn MPI_Win_set_attr(a0: Win, a1: c_int, a2: *const c_void) on a0 }
stub! { fn MPI_Win_set_errhandler(a0: Win, a1: Errhandler) on a0 }
stub! { fn MPI_Win_set_info(a0: Win, a1: Info) on a0 }
stub! { fn MPI_Win_set_name(a0: Win, a1: *const c_void) on a0 }
stub! { fn MPI_Win_shared_query(a0: Win, a1: c_int, a2: *const c_void, a3: *const c_void, a4: *const c_void) on a0 }
stub! { fn MPI_Win_shared_query_c(a0: Win, a1: c_int, a2: *const c_void, a3: *const c_void, a4: *const c_void) on a0 }
stub! { fn MPI_Win_start(a0: Group, a1: c_int, a2: Win) on a2 }
stub! { fn MPI_Win_sync(a0: Win) on a0 }
stub! { fn MPI_Win_test(a0: Win, a1: *const c_void) on a0 }
stub! { fn MPI_Win_unlock(a0: c_int, a1: Win) on a1 }
stub! { fn MPI_Win_unlock_all(a0: Win) on a0 }
stub! { fn MPI_Win_wait(a0: Win) on a0 }
tool_stub! { fn MPI_T_category_changed(a0: *const c_void) }
tool_stub! { fn MPI_T_category_get_categories(a0: c_int, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_category_get_cvars(a0: c_int, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_category_get_events(a0: c_int, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_category_get_index(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_category_get_info(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void, a5: *const c_void, a6: *const c_void, a7: *const c_void) }
tool_stub! { fn MPI_T_category_get_num(a0: *const c_void) }
tool_stub! { fn MPI_T_category_get_num_events(a0: c_int, a1: *const c_void) }
tool_stub! { fn MPI_T_category_get_pvars(a0: c_int, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_cvar_get_index(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_cvar_get_info(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void, a5: *const c_void, a6: *const c_void, a7: *const c_void, a8: *const c_void, a9: *const c_void) }
tool_stub! { fn MPI_T_cvar_get_num(a0: *const c_void) }
tool_stub! { fn MPI_T_cvar_handle_alloc(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void) }
tool_stub! { fn MPI_T_cvar_handle_free(a0: *const c_void) }
tool_stub! { fn MPI_T_cvar_read(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_cvar_write(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_enum_get_info(a0: *const c_void, a1: *const c_void, a2: *const c_void, a3: *const c_void) }
tool_stub! { fn MPI_T_enum_get_item(a0: *const c_void, a1: c_int, a2: *const c_void, a3: *const c_void, a4: *const c_void) }
tool_stub! { fn MPI_T_event_callback_get_info(a0: *const c_void, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_event_callback_set_info(a0: *const c_void, a1: c_int, a2: Info) }
tool_stub! { fn MPI_T_event_copy(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_event_get_index(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_event_get_info(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void, a5: *const c_void, a6: *const c_void, a7: *const c_void, a8: *const c_void, a9: *const c_void, a10: *const c_void, a11: *const c_void) }
tool_stub! { fn MPI_T_event_get_num(a0: *const c_void) }
tool_stub! { fn MPI_T_event_get_source(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_event_get_timestamp(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_event_handle_alloc(a0: c_int, a1: *const c_void, a2: Info, a3: *const c_void) }
tool_stub! { fn MPI_T_event_handle_free(a0: *const c_void, a1: *const c_void, a2: *const c_void) }
tool_stub! { fn MPI_T_event_handle_get_info(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_event_handle_set_info(a0: *const c_void, a1: Info) }
tool_stub! { fn MPI_T_event_read(a0: *const c_void, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_event_register_callback(a0: *const c_void, a1: c_int, a2: Info, a3: *const c_void, a4: *const c_void) }
tool_stub! { fn MPI_T_event_set_dropped_handler(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_finalize() }
tool_stub! { fn MPI_T_init_thread(a0: c_int, a1: *const c_void) }
tool_stub! { fn MPI_T_pvar_get_index(a0: *const c_void, a1: c_int, a2: *const c_void) }
tool_stub! { fn MPI_T_pvar_get_info(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void, a5: *const c_void, a6: *const c_void, a7: *const c_void, a8: *const c_void, a9: *const c_void, a10: *const c_void, a11: *const c_void, a12: *const c_void) }
tool_stub! { fn MPI_T_pvar_get_num(a0: *const c_void) }
tool_stub! { fn MPI_T_pvar_handle_alloc(a0: *const c_void, a1: c_int, a2: *const c_void, a3: *const c_void, a4: *const c_void) }
tool_stub! { fn MPI_T_pvar_handle_free(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_pvar_read(a0: *const c_void, a1: *const c_void, a2: *const c_void) }
tool_stub! { fn MPI_T_pvar_readreset(a0: *const c_void, a1: *const c_void, a2: *const c_void) }
tool_stub! { fn MPI_T_pvar_reset(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_pvar_session_create(a0: *const c_void) }
tool_stub! { fn MPI_T_pvar_session_free(a0: *const c_void) }
tool_stub! { fn MPI_T_pvar_start(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_pvar_stop(a0: *const c_void, a1: *const c_void) }
tool_stub! { fn MPI_T_pvar_write(a0: *const c_void, a1: *const c_void, a2: *const c_void) }
tool_stub! { fn MPI_T_source_get_info(a0: c_int, a1: *const c_void, a2: *const c_void, a3: *const c_void, a4: *const c_void, a5: *const c_void, a6: *const c_void, a7: *const c_void, a8: *const c_void) }
tool_stub! { fn MPI_T_source_get_num(a0: *const c_void) }
tool_stub! { fn MPI_T_source_get_timestamp(a0: c_int, a1: *const c_void) }
