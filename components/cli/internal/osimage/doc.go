// Package osimage computes the measurement of a guest image of dstack: the registers from the files
// of a release, and published values.
//
// The formulas come from dstack-mr (Dstack-TEE/dstack at 312dc605, folder dstack/dstack-mr), the
// TDX module's base specification for MRTD, the PE/COFF Authenticode digest, and QEMU's loader for
// Linux. RTMR0 covers the ACPI tables that QEMU makes for the shape of a VM. Their three digests
// are not computed here, and come from a boot log.
package osimage
