// Package server is the measured process: one or more coordinators of package
// coordinatortest.
package server
