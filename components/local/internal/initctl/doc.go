// Package initctl is the protocol between the daemon and pid 1 of a CVM: the Spec of one boot, and
// JSON messages, one per line, over an inherited socket pair. The end of that socket means that the
// other side has ended; pid 1 then ends, and the kernel ends everything else in the CVM.
package initctl
