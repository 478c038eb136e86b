// A C++ program: types by templates, errors as exceptions, operations from lambdas, handles that free
// themselves. By the standard alone, for any number of ranks.
#include <mpi.h>

#include <array>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

class mpi_error : public std::runtime_error {
public:
    explicit mpi_error(int code) : std::runtime_error(text(code)) { MPI_Error_class(code, &error_class); }
    int error_class = MPI_SUCCESS;

private:
    static std::string text(int code)
    {
        std::array<char, MPI_MAX_ERROR_STRING> buffer{};
        int length = 0;
        MPI_Error_string(code, buffer.data(), &length);
        return std::string(buffer.data(), length);
    }
};

static void check(int code)
{
    if (code != MPI_SUCCESS)
        throw mpi_error(code);
}

static void require(bool condition, const char *what)
{
    if (!condition)
        throw std::logic_error(what);
}
#define REQUIRE(condition) require(condition, #condition)

// A handle with its function for the end.
template <class Handle, int (*End)(Handle *)>
class owned {
public:
    explicit owned(Handle handle) : handle_(handle) {}
    owned(owned &&other) noexcept : handle_(other.handle_), full_(std::exchange(other.full_, false)) {}
    owned(const owned &) = delete;
    owned &operator=(owned) = delete;
    ~owned()
    {
        if (full_)
            End(&handle_);
    }
    operator Handle() const { return handle_; }

private:
    Handle handle_;
    bool full_ = true;
};
using datatype = owned<MPI_Datatype, MPI_Type_free>;
using operation = owned<MPI_Op, MPI_Op_free>;
using communicator = owned<MPI_Comm, MPI_Comm_free>;

template <class T>
MPI_Datatype type_of()
{
    if constexpr (std::is_same_v<T, char>) return MPI_CHAR;
    else if constexpr (std::is_same_v<T, bool>) return MPI_CXX_BOOL;
    else if constexpr (std::is_same_v<T, std::complex<float>>) return MPI_CXX_FLOAT_COMPLEX;
    else if constexpr (std::is_same_v<T, std::complex<double>>) return MPI_CXX_DOUBLE_COMPLEX;
    else if constexpr (std::is_same_v<T, std::complex<long double>>) return MPI_CXX_LONG_DOUBLE_COMPLEX;
    else if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
    else if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
    else if constexpr (std::is_same_v<T, long double>) return MPI_LONG_DOUBLE;
    else if constexpr (std::is_same_v<T, std::int8_t>) return MPI_INT8_T;
    else if constexpr (std::is_same_v<T, std::int32_t>) return MPI_INT32_T;
    else if constexpr (std::is_same_v<T, std::uint64_t>) return MPI_UINT64_T;
    else static_assert(!sizeof(T), "no datatype");
}

struct world {
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank = -1, size = 0;
    world()
    {
        check(MPI_Comm_rank(comm, &rank));
        check(MPI_Comm_size(comm, &size));
    }
};

template <class T>
static void ring(const world &all)
{
    const int next = (all.rank + 1) % all.size, last = (all.rank + all.size - 1) % all.size;
    std::vector<T> out(1000), in(1000);
    for (std::size_t i = 0; i < out.size(); i++)
        out[i] = static_cast<T>((i + all.rank) % 100);
    MPI_Status status;
    check(MPI_Sendrecv(out.data(), 1000, type_of<T>(), next, 3, in.data(), 1000, type_of<T>(), last, 3,
                       all.comm, &status));
    int count = 0;
    check(MPI_Get_count(&status, type_of<T>(), &count));
    REQUIRE(count == 1000 && status.MPI_SOURCE == last);
    for (std::size_t i = 0; i < in.size(); i++)
        REQUIRE(in[i] == static_cast<T>((i + last) % 100));
}

template <class T>
static void sums(const world &all)
{
    T mine = static_cast<T>(all.rank + 1), sum{};
    check(MPI_Allreduce(&mine, &sum, 1, type_of<T>(), MPI_SUM, all.comm));
    REQUIRE(sum == static_cast<T>(all.size * (all.size + 1) / 2));
}

// A lambda without captures is a function of C.
template <class T, class F>
static operation operation_of(F, bool commutes)
{
    MPI_Op op;
    check(MPI_Op_create(
        [](void *in, void *inout, int *count, MPI_Datatype *) {
            auto *left = static_cast<const T *>(in);
            auto *right = static_cast<T *>(inout);
            for (int i = 0; i < *count; i++)
                right[i] = F{}(left[i], right[i]);
        },
        commutes, &op));
    return operation(op);
}

struct matrix {
    std::complex<double> at[4];
    bool operator==(const matrix &other) const
    {
        return std::equal(at, at + 4, other.at);
    }
};

struct multiply {
    matrix operator()(const matrix &a, const matrix &b) const
    {
        return {{a.at[0] * b.at[0] + a.at[1] * b.at[2], a.at[0] * b.at[1] + a.at[1] * b.at[3],
                 a.at[2] * b.at[0] + a.at[3] * b.at[2], a.at[2] * b.at[1] + a.at[3] * b.at[3]}};
    }
};

static void operations(const world &all)
{
    MPI_Datatype made;
    check(MPI_Type_contiguous(4, type_of<std::complex<double>>(), &made));
    datatype type(made);
    check(MPI_Type_commit(&made));
    auto op = operation_of<matrix>(multiply{}, false);
    auto own = [](int rank) { return matrix{{1.0, {0.0, double(rank)}, {double(rank), 0.0}, 2.0}}; };
    matrix mine = own(all.rank), product, prefix, expected = own(0), until{};
    check(MPI_Allreduce(&mine, &product, 1, type, op, all.comm));
    check(MPI_Scan(&mine, &prefix, 1, type, op, all.comm));
    for (int rank = 0; rank < all.size; rank++) {
        if (rank > 0)
            expected = multiply{}(expected, own(rank));
        if (rank == all.rank)
            until = expected;
    }
    REQUIRE(product == expected && prefix == until);

    bool odd = all.rank % 2, any = false, every = true;
    check(MPI_Allreduce(&odd, &any, 1, type_of<bool>(), MPI_LOR, all.comm));
    check(MPI_Allreduce(&odd, &every, 1, type_of<bool>(), MPI_LAND, all.comm));
    REQUIRE(any == (all.size > 1) && !every);
}

static void errors(const world &all)
{
    MPI_Comm made;
    check(MPI_Comm_dup(all.comm, &made));
    communicator comm(made);
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int value = 0, caught = 0;
    try {
        check(MPI_Send(&value, -1, MPI_INT, all.rank, 0, comm));
    } catch (const mpi_error &error) {
        caught = error.error_class;
        REQUIRE(!std::string(error.what()).empty());
    }
    REQUIRE(caught == MPI_ERR_COUNT);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int wrong = 0;
    try {
        world all;
        ring<char>(all), ring<std::int8_t>(all), ring<std::int32_t>(all), ring<std::uint64_t>(all);
        ring<float>(all), ring<double>(all), ring<long double>(all), ring<std::complex<float>>(all);
        ring<std::complex<double>>(all), ring<std::complex<long double>>(all);
        sums<std::int32_t>(all), sums<std::uint64_t>(all), sums<float>(all), sums<double>(all);
        sums<long double>(all), sums<std::complex<float>>(all), sums<std::complex<double>>(all);
        operations(all);
        if (argc < 2)
            errors(all);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        wrong = 1;
    }
    if (wrong)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    std::puts("ok");
}
