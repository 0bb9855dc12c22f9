// Package health judges the workload from inside its CVM with the checks of the
// group's spec. Health is three-valued: unknown until a threshold is reached for
// the first time, and unknown is neither healthy nor unhealthy (R10).
package health
