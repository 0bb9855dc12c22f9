package render

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/client/format"
)

// LocalCVMs lists a local cloud's CVMs with their services.
func LocalCVMs(s Style, list []localcloud.CVM) string {
	if len(list) == 0 {
		return "the local cloud runs and has no CVM\n"
	}
	rows := [][]Cell{}
	hosts := slices.ContainsFunc(list, func(c localcloud.CVM) bool { return c.Host != "" })
	for _, c := range list {
		tone := Good
		if c.Status != "running" {
			tone = Warn
		}
		services := []string{}
		for _, v := range c.Services {
			text := v.Name + " " + v.State
			if v.Health != "" {
				text += " (" + v.Health + ")"
			}
			if v.Restarts > 0 {
				text += fmt.Sprintf(", %d restarts", v.Restarts)
			}
			services = append(services, text)
		}
		if c.BootError != "" {
			tone = Bad
			services = append(services, c.BootError)
		}
		row := []Cell{T(c.Name, Bold), T(c.Status, tone), C(c.Address), C(fmt.Sprint(c.Boots)), C(format.Short(c.InstanceID)), C(strings.Join(services, "; "))}
		if hosts {
			row = slices.Insert(row, 1, C(c.Host))
		}
		rows = append(rows, row)
	}
	columns := []string{"CVM", "STATUS", "ADDRESS", "BOOTS", "INSTANCE", "SERVICES"}
	if hosts {
		columns = slices.Insert(columns, 1, "HOST")
	}
	return s.Table(columns, rows)
}

// LocalFaults lists armed faults.
func LocalFaults(s Style, list []localcloud.Fault) string {
	if len(list) == 0 {
		return "no API fault is armed\n"
	}
	rows := [][]Cell{}
	for _, f := range list {
		effect := f.Effect
		if f.Status != 0 {
			effect += fmt.Sprintf(" %d", f.Status)
		}
		rows = append(rows, []Cell{C(fmt.Sprint(f.ID)), C(f.Match), C(f.CVM), C(effect), C(fmt.Sprintf("%d/%d", f.Hits, f.Times))})
	}
	return s.Table([]string{"ID", "MATCH", "CVM", "EFFECT", "HITS"}, rows)
}
