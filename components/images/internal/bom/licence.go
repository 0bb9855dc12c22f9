package bom

import (
	"bytes"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// known is the SPDX name of the short names that Debian's copyright files use.
var known = map[string]string{
	"apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "artistic-2.0": "Artistic-2.0", "bsd-2-clause": "BSD-2-Clause",
	"bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "expat": "MIT", "mit": "MIT", "isc": "ISC", "zlib": "Zlib", "postgresql": "PostgreSQL",
	"gpl-1": "GPL-1.0-only", "gpl-1+": "GPL-1.0-or-later", "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only",
	"gpl-3+": "GPL-3.0-or-later", "lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later",
	"lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later", "gfdl-1.3": "GFDL-1.3-only", "gfdl-1.3+": "GFDL-1.3-or-later", "mpl-2.0": "MPL-2.0",
	"cc0-1.0": "CC0-1.0", "openssl": "OpenSSL", "openldap-2.8": "OLDAP-2.8", "python-2.0": "Python-2.0", "unicode": "Unicode-DFS-2016",
}

// Copyright reads a machine-readable copyright file (DEP 5). The expression names every licence of
// every file, joined with AND. It is empty when a licence has no name in SPDX, and the comment
// lists the file's names.
func Copyright(text []byte) (expression, comment string) {
	if len(text) == 0 {
		return "", "the package has no copyright file"
	}
	if !strings.HasPrefix(string(text), "Format:") {
		return "", "its copyright file is prose: /usr/share/doc/<package>/copyright"
	}
	var names, spdx []string
	all := true
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "License:")
		value = strings.Join(strings.Fields(value), " ")
		if !ok || value == "" || slices.Contains(names, value) {
			continue
		}
		names = append(names, value)
		one, ok := clause(value)
		all = all && ok
		if ok && !slices.Contains(spdx, one) {
			spdx = append(spdx, one)
		}
	}
	if len(names) == 0 {
		return "", "its copyright file names no licence"
	}
	if !all {
		return "", "Debian names: " + strings.Join(names, "; ")
	}
	slices.Sort(spdx)
	return strings.Join(spdx, " AND "), ""
}

// clause translates "GPL-2+ or Artistic, and Expat" when every name in it is known.
func clause(text string) (string, bool) {
	var ands []string
	for _, part := range strings.Split(strings.ReplaceAll(text, ", and ", " and "), " and ") {
		var ors []string
		for _, name := range strings.Split(part, " or ") {
			id, ok := known[strings.ToLower(strings.Trim(name, " ,"))]
			if !ok {
				return "", false
			}
			ors = append(ors, id)
		}
		one := strings.Join(ors, " OR ")
		if len(ors) > 1 {
			one = "(" + one + ")"
		}
		ands = append(ands, one)
	}
	return strings.Join(ands, " AND "), true
}

// certain is how much of a text must be that of a known licence, in percent.
const certain = 75

// Texts recognises licence texts word for word. Texts of which one is not known have no
// expression.
func Texts(texts [][]byte) (expression, comment string) {
	var ids []string
	unknown := 0
	for _, text := range texts {
		if bytes.Contains(text, []byte("\nBusiness Source License 1.1\n")) && bytes.Contains(text, []byte("\nTerms\n")) {
			// A form with parameters, which the scanner does not know.
			ids = append(ids, "BUSL-1.1")
			continue
		}
		cover := licensecheck.Scan(text)
		if cover.Percent < certain {
			unknown++
			continue
		}
		for _, m := range cover.Match {
			// A grant of patents in addition to a licence has no name in SPDX.
			if !strings.HasPrefix(m.ID, "GooglePatent") && !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch {
	case len(texts) == 0:
		return "", "it has no licence file at its root"
	case len(ids) == 0:
		return "", "its licence text is none that is known"
	case unknown > 0:
		// A NOTICE in addition to a licence is the usual case.
		return strings.Join(ids, " AND "), "in addition to texts that are no known licence"
	}
	return strings.Join(ids, " AND "), ""
}
