// Package initctl is what the daemon and pid 1 of a CVM say to each other: the
// Spec of one boot, and JSON messages, one per line, over an inherited socket
// pair. The end of that socket means the other side is gone; pid 1 then ends,
// and the kernel ends everything else in the CVM.
package initctl
