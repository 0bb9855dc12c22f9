// Package cloud is a platform without machines, in virtual time: CVMs have a name and a disk, and
// boot some time after a call. A [Guest] runs in each CVM. The owner of the cloud transports calls
// and answers at once, late or never. Use it in a bubble of testing/synctest.
package cloud
