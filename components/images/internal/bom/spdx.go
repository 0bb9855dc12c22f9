package bom

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// SPDXType is the media type of the result of SPDX.
const SPDXType = "application/spdx+json"

const unknown = "NOASSERTION"

// Subject is the image that a document is about.
type Subject struct {
	// Name is "<name>:<version>", Digest that of the manifest ("sha256:…").
	Name, Digest string
	// Time is that of the image, and so of the document.
	Time time.Time
	// Licence is the recipe's licence of the image as a whole; empty is none.
	Licence string
}

// SPDX writes the document (version 2.3, JSON): the same components give the same bytes.
func SPDX(s Subject, components []Component) ([]byte, error) {
	root := element("image")
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: s.Name,
		DocumentNamespace: "https://cadre.dev/spdx/" + strings.ReplaceAll(s.Digest, ":", "/"),
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "cadre-images"}}, Created: s.Time.UTC().Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{{
			PackageName: s.Name, PackageSPDXIdentifier: root, PackageVersion: s.Digest, PackageDownloadLocation: unknown, PrimaryPackagePurpose: "CONTAINER",
			PackageLicenseConcluded: unknown, PackageLicenseDeclared: cmp.Or(s.Licence, unknown), PackageCopyrightText: unknown,
		}},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, root)},
	}
	components = slices.Clone(components)
	slices.SortFunc(components, func(a, b Component) int {
		return cmp.Or(strings.Compare(a.In, b.In), strings.Compare(a.URL, b.URL))
	})
	programs := map[string]common.ElementID{}
	for i, c := range components {
		id := element(fmt.Sprintf("%d-%s", i, c.Name))
		doc.Packages = append(doc.Packages, describe(id, c))
		if c.In == "" {
			programs[c.Name] = id
			doc.Relationships = append(doc.Relationships, relation(root, common.TypeRelationshipContains, id))
		} else {
			// Programs have no In and so come first.
			doc.Relationships = append(doc.Relationships, relation(programs[c.In], common.TypeRelationshipContains, id))
		}
	}
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out, spdxjson.Indent(" "), spdxjson.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("write SPDX: %w", err)
	}
	return out.Bytes(), nil
}

func describe(id common.ElementID, c Component) *v2_3.Package {
	p := &v2_3.Package{
		PackageName: c.Name, PackageSPDXIdentifier: id, PackageVersion: c.Version, PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: cmp.Or(c.Licence, unknown), PackageLicenseComments: c.Comment, PackageCopyrightText: unknown,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.URL,
		}},
	}
	if c.SHA256 != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: c.SHA256}}
	}
	return p
}

func relation(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to))}
}

// element makes an identifier of the characters that SPDX allows.
func element(name string) common.ElementID {
	return common.ElementID(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name))
}
