//! `#[derive(Datatype)]`: a struct may travel when its fields may and nothing lies between them.
//!
//! The macro writes the `unsafe impl` that the trait asks for together with constants that make
//! the compiler check the proof: every field is a datatype, and the sizes of the fields add up
//! to the size of the struct. It reads only the tokens of the struct; it is not a layout engine.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Path, parse_macro_input};

/// Implements `Datatype` for a `repr(C)` or `repr(transparent)` struct without padding.
///
/// Refused at compile time: enums and unions, structs without a fixed layout, generic structs,
/// a field that is no datatype, and padding between the fields or at the end (put the fields in
/// falling order of alignment, or add a field that fills the gap).
///
/// The generated code names `::bowline::mpi::Datatype`; a crate that depends on `bowline-mpi` alone
/// says `#[datatype(crate = bowline_mpi)]`.
#[proc_macro_derive(Datatype, attributes(datatype))]
pub fn derive_datatype(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<Tokens, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            &input.ident,
            "only structs can be datatypes: not every bit pattern is a value of an enum, and a \
             union may leave bytes unset",
        ));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a generic struct cannot be a datatype: its padding depends on the parameters",
        ));
    }
    let options = Options::read(input)?;
    if !options.fixed_layout {
        return Err(Error::new_spanned(
            &input.ident,
            "a datatype needs a fixed layout: add #[repr(C)] or #[repr(transparent)]",
        ));
    }

    let name = &input.ident;
    let root = options.root;
    let types: Vec<_> = data.fields.iter().map(|field| &field.ty).collect();
    let field_checks = types.iter().map(|ty| {
        // The span of the field puts the error under it.
        quote_spanned!(ty.span()=> is_datatype::<#ty>();)
    });
    Ok(quote! {
        const _: () = {
            const fn is_datatype<T: #root::Datatype>() {}
            #(#field_checks)*
            assert!(
                ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#types>())*,
                "a datatype has no padding: put the fields in falling order of alignment, or fill \
                 the gap with a field"
            );
        };
        // SAFETY: the layout is fixed and, by the constant above, made of the fields alone, each
        // of which is a datatype; so no byte is padding and every bit pattern is a value.
        #[automatically_derived]
        unsafe impl #root::Datatype for #name {}
    })
}

struct Options {
    root: Path,
    fixed_layout: bool,
}

impl Options {
    fn read(input: &DeriveInput) -> Result<Self, Error> {
        let mut options = Self { root: syn::parse_quote!(::bowline::mpi), fixed_layout: false };
        for attribute in &input.attrs {
            if attribute.path().is_ident("repr") {
                // `align(..)`, `packed` and integer types may stand beside: the sum of sizes
                // decides whether they leave gaps.
                attribute.parse_nested_meta(|meta| {
                    if meta.path.is_ident("C") || meta.path.is_ident("transparent") {
                        options.fixed_layout = true;
                    }
                    if meta.input.peek(syn::token::Paren) {
                        let content;
                        syn::parenthesized!(content in meta.input);
                        content.parse::<Tokens>()?;
                    }
                    Ok(())
                })?;
            } else if attribute.path().is_ident("datatype") {
                attribute.parse_nested_meta(|meta| {
                    if !meta.path.is_ident("crate") {
                        return Err(
                            meta.error("the only option is `crate = path::to::bowline_mpi`")
                        );
                    }
                    options.root = meta.value()?.parse()?;
                    Ok(())
                })?;
            }
        }
        Ok(options)
    }
}
