// Package world is a cluster without machines, in virtual time: a platform whose CVMs boot
// after a while, the members in them, their workload, and coordinators that run the production
// control loop on one store. What goes wrong in it is decided by a [plan.Plan]. Everything that
// happens is in its trace. Use it in a bubble of testing/synctest.
package world
