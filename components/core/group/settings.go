package group

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cadre.dev/core/version"
)

// SettingKind is the syntax of a setting's text.
type SettingKind string

// Kinds of settings. Settings are texts: these say which ones.
const (
	// SettingPort is a port number.
	SettingPort SettingKind = "port"
	// SettingBytes is a number of bytes, without a unit.
	SettingBytes SettingKind = "bytes"
	// SettingAddress is host:port.
	SettingAddress SettingKind = "host:port"
	// SettingFile is the absolute path of a file in the agent's container.
	SettingFile SettingKind = "file"
	// SettingText is a word that the workload gives a meaning to.
	SettingText SettingKind = "text"
	// SettingRelease is a release number.
	SettingRelease SettingKind = "version"
)

// SettingVersion is the setting that names the version of the workload's software, for the rules of version upgrades.
// No driver reads it.
const SettingVersion = "version"

// versionSetting is that setting for software, with an example.
func versionSetting(software, example string) Setting {
	return Setting{Name: SettingVersion, Kind: SettingRelease,
		Line: "Version of " + software + " in the template, such as `" + example + "`, for the [rules of version upgrades](../guides/workloads.md#version-upgrades). Absent: the tag of its image."}
}

// Setting is one setting of a workload's driver. Validation, the agents' drivers and the field
// reference use the same rows: a value that only agents checked would cost a member.
type Setting struct {
	Name string
	Kind SettingKind
	// Default applies where the setting is absent; empty: none.
	Default string
	// Of are the only texts that are taken; empty: each text of the kind.
	Of []string
	// With are the settings that are to be given with it, if it is.
	With []string
	// Line describes the setting in one line, in Markdown.
	Line string
}

// WorkloadKinds are the names of all kinds, sorted.
func WorkloadKinds() []string { return sortedKeys(workloadKinds) }

// SettingsOf are the settings of a kind of workload, in the order of their names.
func SettingsOf(kind string) []Setting { return slices.Clone(workloadKinds[kind].settings) }

// Range says in Markdown which texts are taken.
func (s Setting) Range() string {
	switch s.Kind {
	case SettingPort:
		return "1 to 65535"
	case SettingBytes:
		return "a whole number from 0"
	case SettingAddress:
		return "`host:port`"
	case SettingFile:
		return "an absolute path"
	case SettingRelease:
		return "one to four numbers with dots"
	case SettingText:
		return strings.Join(s.Of, ", ")
	default:
		return ""
	}
}

// maxSettingBytes bounds the text of a setting.
const maxSettingBytes = 1024

// problem describes the problem of a value; "" for a valid one. An empty value counts as absent.
func (s Setting) problem(value string) string {
	switch {
	case value == "":
		return ""
	case len(value) > maxSettingBytes:
		return fmt.Sprintf("has more than %d bytes", maxSettingBytes)
	case strings.ContainsFunc(value, unicode.IsControl):
		return "holds a control character or a line break"
	}
	wrong := false
	switch s.Kind {
	case SettingPort:
		wrong = !isPort(value)
	case SettingBytes:
		_, err := strconv.ParseUint(value, 10, 63)
		wrong = err != nil
	case SettingAddress:
		u, err := url.Parse("http://" + value)
		wrong = err != nil || u.Host != value || u.Hostname() == "" || !isPort(u.Port())
	case SettingFile:
		wrong = !path.IsAbs(value) || path.Clean(value) != value
	case SettingRelease:
		_, ok := version.Parse(value)
		wrong = !ok
	case SettingText:
		wrong = len(s.Of) > 0 && !slices.Contains(s.Of, value)
	}
	if !wrong {
		return ""
	}
	switch s.Kind {
	case SettingBytes:
		return fmt.Sprintf("%q is not a number of bytes: write a whole number from 0, without a unit", value)
	case SettingAddress:
		return fmt.Sprintf("%q is not host:port, such as %q", value, s.Default)
	case SettingFile:
		return fmt.Sprintf("%q is not the absolute path of a file", value)
	case SettingRelease:
		return fmt.Sprintf("%q is not a version: write its numbers with dots, such as \"3.6.16\"", value)
	case SettingText:
		return fmt.Sprintf("%q is unknown: use one of %s", value, strings.Join(s.Of, ", "))
	default:
		return fmt.Sprintf("%q is not a port number 1 to 65535", value)
	}
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// settingProblems is everything that is wrong with the settings of a workload whose kind is known.
func (w Workload) settingProblems() []Problem {
	var out []Problem
	known := workloadKinds[w.Kind].settings
	names := make([]string, 0, len(known))
	for _, s := range known {
		names = append(names, s.Name)
	}
	for _, name := range sortedKeys(w.Settings) {
		said := ""
		if at := slices.Index(names, name); at < 0 {
			said = fmt.Sprintf("is not a setting of workload %q; known: %s", w.Kind, orNone(names))
		} else if s := known[at]; w.Settings[name] != "" {
			said = s.problem(w.Settings[name])
			missing := slices.DeleteFunc(slices.Clone(s.With), func(other string) bool { return w.Settings[other] != "" })
			if said == "" && len(missing) > 0 {
				said = fmt.Sprintf("does nothing without %s: give all of them, or none", strings.Join(missing, ", "))
			}
		}
		if said != "" {
			out = append(out, Problem{Path: fmt.Sprintf("workload.settings[%q]", name), Message: said})
		}
	}
	if judge := workloadKinds[w.Kind].judge; judge != nil && len(out) == 0 {
		out = judge(w.Settings)
	}
	return out
}

// ReadSettings returns the settings of w with their defaults, for its driver, or an error that
// lists the problems.
func (w Workload) ReadSettings() (SettingValues, error) {
	if w.Kind == "" {
		w.Kind = WorkloadNone
	}
	if _, known := workloadKinds[w.Kind]; !known {
		return nil, fmt.Errorf("workload.kind: %q is unknown: use one of %s", w.Kind, strings.Join(WorkloadKinds(), ", "))
	}
	var all []error
	for _, p := range w.settingProblems() {
		all = append(all, errors.New(p.String()))
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	values := make(SettingValues)
	maps.Copy(values, w.Settings)
	for _, s := range workloadKinds[w.Kind].settings {
		if values[s.Name] == "" {
			values[s.Name] = s.Default
		}
	}
	return values, nil
}

// SettingValues are settings as ReadSettings found them, each with a text of its kind.
type SettingValues map[string]string

// Port is the value of a SettingPort.
func (v SettingValues) Port(name string) uint16 {
	n, _ := strconv.ParseUint(v[name], 10, 16) // was judged
	return uint16(n)
}

// Bytes is the value of a SettingBytes.
func (v SettingValues) Bytes(name string) int64 {
	n, _ := strconv.ParseUint(v[name], 10, 63) // was judged
	return int64(n)
}

// kindsLine lists the kinds, for the reference.
func kindsLine() string { return "One of `" + strings.Join(WorkloadKinds(), "`, `") + "`." }

// settingsLine lists the settings of all kinds by their names.
func settingsLine() string {
	var all []string
	for _, kind := range WorkloadKinds() {
		var names []string
		for _, s := range workloadKinds[kind].settings {
			one := "`" + s.Name + "`"
			if s.Default != "" {
				one += " (`" + s.Default + "`)"
			}
			names = append(names, one)
		}
		if len(names) > 0 {
			all = append(all, fmt.Sprintf("`%s` has %s", kind, strings.Join(names, ", ")))
		}
	}
	return "Settings of the driver, as texts, with the default in brackets: " + strings.Join(all, "; ") + "."
}
