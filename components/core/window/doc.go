// Package window decides when the steps of a rollout may begin: in weekly spans of a zone's wall clock (R97).
//
// The package is pure. Rules of time zones come from the table in zoneinfo.zip alone, which is Go's lib/time/zoneinfo.zip,
// so that every coordinator of one version makes the same decision on every machine.
package window
