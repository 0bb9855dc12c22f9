// Package reports keeps the agents' last reports in memory and knows which
// Boots have a live control session here. Every agent reports to every
// coordinator, so a standby that takes over has fresh facts already; nothing
// here needs to survive a restart.
package reports
