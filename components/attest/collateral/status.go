package collateral

import (
	"slices"

	"cadre.dev/core/policy"
)

// Status is Intel's name for the status of a TCB level.
type Status string

// The statuses that exist for TDX.
const (
	UpToDate                          Status = "UpToDate"
	SWHardeningNeeded                 Status = "SWHardeningNeeded"
	ConfigurationNeeded               Status = "ConfigurationNeeded"
	ConfigurationAndSWHardeningNeeded Status = "ConfigurationAndSWHardeningNeeded"
	OutOfDate                         Status = "OutOfDate"
	OutOfDateConfigurationNeeded      Status = "OutOfDateConfigurationNeeded"
	Revoked                           Status = "Revoked"
)

// A status is a set of complaints; UpToDate has none.
const (
	needsHardening = 1 << iota
	needsConfiguration
	outOfDate
	revoked
)

var complaints = map[Status]int{
	UpToDate:                          0,
	SWHardeningNeeded:                 needsHardening,
	ConfigurationNeeded:               needsConfiguration,
	ConfigurationAndSWHardeningNeeded: needsConfiguration | needsHardening,
	OutOfDate:                         outOfDate,
	OutOfDateConfigurationNeeded:      outOfDate | needsConfiguration,
	Revoked:                           revoked,
}

func (s Status) known() bool {
	_, ok := complaints[s]
	return ok
}

// worst combines all statuses: its result is never better than any of them. An unknown status is as
// bad as Revoked.
func worst(all ...Status) Status {
	sum := 0
	for _, s := range all {
		c, ok := complaints[s]
		if !ok {
			return Revoked
		}
		sum |= c
	}
	switch {
	case sum&revoked != 0:
		return Revoked
	case sum&outOfDate != 0 && sum&needsConfiguration != 0:
		return OutOfDateConfigurationNeeded
	case sum&outOfDate != 0:
		return OutOfDate
	case sum&needsConfiguration != 0 && sum&needsHardening != 0:
		return ConfigurationAndSWHardeningNeeded
	case sum&needsConfiguration != 0:
		return ConfigurationNeeded
	case sum&needsHardening != 0:
		return SWHardeningNeeded
	}
	return UpToDate
}

// Worse combines two results for one machine: the worst status, all advisories, the first date.
func Worse(a, b policy.TCB) policy.TCB {
	out := a
	out.Status = string(worst(Status(a.Status), Status(b.Status)))
	out.Advisories = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Advisories, b.Advisories))))
	out.ReplacedAt = replacedAt(
		matched{status: Status(a.Status), replaced: a.ReplacedAt}, matched{status: Status(b.Status), replaced: b.ReplacedAt})
	return out
}
