#!/bin/sh
# mpicc, mpicxx, mpic++, mpiCC: calls the system's compiler with what a program needs that uses
# Bowline's mpi.h. It finds header and library beside itself, so the whole directory may be moved.
# MPICH's and Open MPI's ways to ask for the flags are understood.

version='@VERSION@'
name=${0##*/}
self=$(readlink -f -- "$0") || exit 1
prefix=${self%/bin/*}

case $name in
mpicxx | mpic++ | mpiCC | mpicpc)
    language=C++
    compiler=${BOWLINE_CXX:-${MPICH_CXX:-${OMPI_CXX:-c++}}} ;;
*)
    language=C
    compiler=${BOWLINE_CC:-${MPICH_CC:-${OMPI_CC:-cc}}} ;;
esac

# The new kind of run path stands behind LD_LIBRARY_PATH, which can so choose another library.
compile="-I$prefix/include"
libs=-lmpi_abi
link="-L$prefix/lib -Wl,--enable-new-dtags -Wl,-rpath,$prefix/lib $libs"

# The first words may be for this script; all others are the compiler's.
show=
linking=yes
files=
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
    -show | -showme | --showme) show=all; continue ;;
    -showme:compile | --showme:compile) echo "$compile"; exit 0 ;;
    -showme:link | --showme:link) echo "$link"; exit 0 ;;
    -showme:incdirs | --showme:incdirs) echo "$prefix/include"; exit 0 ;;
    -showme:libdirs | --showme:libdirs) echo "$prefix/lib"; exit 0 ;;
    -showme:libs | --showme:libs) echo "${libs#-l}"; exit 0 ;;
    -showme:command | --showme:command) echo "$compiler"; exit 0 ;;
    -showme:version | --showme:version) echo "$name: Bowline $version (Language: $language)"; exit 0 ;;
    -showme:* | --showme:*)
        echo "$name: unknown option $word; -showme has compile, link, incdirs, libdirs, libs, command, version" >&2
        exit 1 ;;
    -compile_info | -compile-info) echo "$compiler $compile"; exit 0 ;;
    -link_info | -link-info) echo "$compiler $compile $link"; exit 0 ;;
    -cc=* | -CC=* | -cxx=*) compiler=${word#*=}; continue ;;
    # These make no program, and a compiler may warn of what only a linker reads.
    -c | -E | -S | -M | -MM | -fsyntax-only) linking= ;;
    -o | -I | -L | -x | -D | -U | -include | -isystem | -Xlinker | -MF | -MT | -MQ)
        set -- "$@" "$word"
        # Its value is no file to compile.
        if [ "$count" -gt 0 ]; then
            word=$1
            shift
            count=$((count - 1))
        else
            continue
        fi ;;
    -l* | -Wl,*) files=yes ;;
    -?*) ;;
    *) files=yes ;;
    esac
    set -- "$@" "$word"
done

# Blanks in the compiler's name divide words: `ccache gcc`.
if [ -n "$show" ]; then
    set -- $compiler "$@" $compile
    [ -n "$linking" ] && set -- "$@" $link
    echo "$*"
    exit 0
fi
# Without files the compiler is asked something, as by -v or --version.
[ -n "$files" ] || exec $compiler "$@"
if [ -n "$linking" ]; then
    exec $compiler "$@" "$compile" "-L$prefix/lib" -Wl,--enable-new-dtags "-Wl,-rpath,$prefix/lib" $libs
fi
exec $compiler "$@" "$compile"
