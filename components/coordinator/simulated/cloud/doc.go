// Package cloud is a platform without machines, in virtual time: CVMs have a name and a disk,
// and boot a while after a call. What runs in a CVM is its [Guest]. How calls get to the cloud
// and their answers back is its owner's, who carries them at once, late or never. Use it
// in a bubble of testing/synctest.
package cloud
