package bom

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"

	"cadre.dev/images/internal/program"
)

func TestCopyrightSaysOnlyWhatItKnows(t *testing.T) {
	const format = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
	for _, c := range []struct{ name, text, want, comment string }{
		{"one", format + "Files: *\nLicense: Expat\n", "MIT", ""},
		{"several", format + "License: GPL-2+\n\nLicense: BSD-3-clause\n text\nLicense: GPL-2+\n", "BSD-3-Clause AND GPL-2.0-or-later", ""},
		{"a choice", format + "License: GPL-2+ or Artistic\n", "(GPL-2.0-or-later OR Artistic-1.0-Perl)", ""},
		{"one that has no name", format + "License: Expat\nLicense: custom\n", "", "Debian names: Expat; custom"},
		{"prose", "This is the PostgreSQL package\nLicense: Expat\n", "", "its copyright file is prose: /usr/share/doc/<package>/copyright"},
		{"none", "", "", "the package has no copyright file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, comment := Copyright([]byte(c.text))
			if got != c.want || comment != c.comment {
				t.Errorf("got %q, %q; want %q, %q", got, comment, c.want, c.comment)
			}
		})
	}
}

func TestTextsAreRecognised(t *testing.T) {
	licence, err := os.ReadFile("../../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := Texts([][]byte{licence}); got != "Apache-2.0" {
		t.Errorf("got %q", got)
	}
	if got, comment := Texts([][]byte{[]byte("You may look at it.")}); got != "" || comment == "" {
		t.Errorf("got %q, %q", got, comment)
	}
}

func TestNoticeFileHasEachTextOnce(t *testing.T) {
	got := string(NoticeFile("prog", []Notice{
		{program.Module{Path: "a", Version: "v1"}, [][]byte{[]byte("same\n")}}, {program.Module{Path: "b", Version: "v2"}, [][]byte{[]byte("same")}},
		{program.Module{Path: "c", Version: "v3"}, nil},
	}))
	if strings.Count(got, "same") != 1 || !strings.Contains(got, "a v1\nb v2\n") || !strings.Contains(got, "Without a licence at their root:\nc v3") {
		t.Errorf("got %s", got)
	}
}

func TestSPDXIsValidAndTheSameTwice(t *testing.T) {
	s := Subject{Name: "x:dev", Digest: "sha256:" + strings.Repeat("0a", 32), Time: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	components := []Component{
		{Name: "example.org/m", Version: "v1.2.3", URL: "pkg:golang/example.org/m@v1.2.3", In: "prog", Licence: "MIT"},
		Program("prog", "dev", strings.Repeat("0b", 32), "Apache-2.0"),
		{Name: "libc6", Version: "2.36-9+deb12u14", URL: "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14", SHA256: strings.Repeat("0c", 32), Comment: "prose"},
	}
	first, err := SPDX(s, components)
	if err != nil {
		t.Fatal(err)
	}
	second, err := SPDX(s, []Component{components[2], components[1], components[0]})
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("another order, another document: %v", err)
	}
	var doc v2_3.Document
	if err := spdxjson.ReadInto(bytes.NewReader(first), &doc); err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(&doc); err != nil {
		t.Error(err)
	}
	if len(doc.Packages) != 4 || len(doc.Relationships) != 4 || doc.Packages[0].PackageVersion != s.Digest {
		t.Errorf("%d packages, %d relationships", len(doc.Packages), len(doc.Relationships))
	}
	for _, p := range doc.Packages {
		if p.PackageName == "libc6" && p.PackageLicenseDeclared != "NOASSERTION" {
			t.Errorf("libc6 is said to be %s", p.PackageLicenseDeclared)
		}
	}
}

func TestProvenanceNamesInputsByDigest(t *testing.T) {
	data, err := Provenance(Subject{Name: "x:dev", Digest: "sha256:aa"}, Build{Image: "x", Toolchain: "go1.26.8", Inputs: []Input{{URI: "pkg:deb/x", SHA256: "bb"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Type    string `json:"_type"`
		Subject []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		Predicate struct {
			Definition struct {
				Inputs []struct {
					URI    string            `json:"uri"`
					Digest map[string]string `json:"digest"`
				} `json:"resolvedDependencies"`
			} `json:"buildDefinition"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "https://in-toto.io/Statement/v1" || got.Subject[0].Digest["sha256"] != "aa" || got.Predicate.Definition.Inputs[0].Digest["sha256"] != "bb" {
		t.Errorf("%s", data)
	}
}
