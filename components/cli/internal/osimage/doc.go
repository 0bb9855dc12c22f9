// Package osimage says what a guest image of dstack measures: it computes the registers from the files
// of a release, and knows values that others published.
//
// The formulas are those of dstack-mr (Dstack-TEE/dstack at 312dc605, folder dstack/dstack-mr), of the TDX
// module's base specification for MRTD, of the PE/COFF Authenticode digest, and of QEMU's loader for Linux.
// RTMR0 covers the ACPI tables that QEMU makes for the shape of a VM. They are not computed here: their
// three digests come from a boot log.
package osimage
