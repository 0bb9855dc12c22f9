// Package world is a cluster without machines, in virtual time. It has a platform whose CVMs boot
// after a while, the members in them, and their workload. Its coordinators run the production
// control loop on one store. A [plan.Plan] decides the faults. The trace has every event. Use the
// package in a bubble of testing/synctest.
package world
