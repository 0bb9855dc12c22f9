package bom

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/images/internal/deb"
	"cadre.dev/images/internal/program"
	"cadre.dev/images/internal/recipe"
	"cadre.dev/images/internal/wheel"
)

// Component is one package of an image.
type Component struct {
	Name, Version string
	// URL is its package URL (purl).
	URL string
	// SHA256 is that of the file that it came as; empty for a Go module.
	SHA256 string
	// Licence is an SPDX expression; empty is unknown. Comment names the found texts.
	Licence, Comment string
	// In is the program that a Go module is part of; empty for others.
	In string
}

// Deb describes a Debian package; copyright is its file of that name, nil without one.
func Deb(p *deb.Package, l recipe.Deb, copyright []byte) Component {
	licence, comment := Copyright(copyright)
	return Component{
		Name: p.Name, Version: p.Version, SHA256: l.SHA256, Licence: licence, Comment: comment,
		URL: fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=debian-12", url.PathEscape(p.Name), url.QueryEscape(p.Version), p.Architecture),
	}
}

// Wheel describes a Python package.
func Wheel(p *wheel.Package, l recipe.Wheel) Component {
	c := Component{Name: l.Name, Version: l.Version, SHA256: l.SHA256, URL: fmt.Sprintf("pkg:pypi/%s@%s", l.Name, url.QueryEscape(l.Version))}
	if c.Licence = wheel.Field(p.Metadata, "License-Expression"); c.Licence != "" {
		return c
	}
	if c.Licence, c.Comment = Texts(p.Licences); c.Licence == "" {
		c.Comment = cmp.Or(wheel.Field(p.Metadata, "License"), strings.Join(wheel.Fields(p.Metadata, "Classifier"), "; "), c.Comment)
		c.Comment, _, _ = strings.Cut(c.Comment, "\n")
	}
	return c
}

// Program describes a Go program that was built.
func Program(name, version, sha256, licence string) Component {
	return Component{Name: name, Version: version, SHA256: sha256, Licence: licence, URL: fmt.Sprintf("pkg:generic/%s@%s", name, url.QueryEscape(version))}
}

// Notice is the licence texts of one Go module.
type Notice struct {
	Module program.Module
	Texts  [][]byte
}

var noticeName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([.-].*)?$`)

// maxNotice bounds a licence text, in bytes.
const maxNotice = 1 << 20

// Notices reads the licence texts at the root of each module, in their order.
func Notices(modules []program.Module) ([]Notice, error) {
	var all []Notice
	for _, m := range modules {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("read the licence of %s: %w", m.Path, err)
		}
		n := Notice{Module: m}
		for _, e := range entries { // sorted by name
			if !noticeName.MatchString(e.Name()) || !e.Type().IsRegular() {
				continue
			}
			if info, err := e.Info(); err != nil || info.Size() > maxNotice {
				continue
			}
			text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				return nil, fmt.Errorf("read the licence of %s: %w", m.Path, err)
			}
			n.Texts = append(n.Texts, text)
		}
		all = append(all, n)
	}
	return all, nil
}

// Component describes the module as a part of a program.
func (n Notice) Component(in string) Component {
	c := Component{Name: n.Module.Path, Version: n.Module.Version, In: in, URL: "pkg:golang/" + n.Module.Path + "@" + url.QueryEscape(n.Module.Version)}
	c.Licence, c.Comment = Texts(n.Texts)
	return c
}

// NoticeFile is one text with the licences of all modules of a program, each text once.
func NoticeFile(name string, notices []Notice) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s contains these Go modules. Their licences follow, each once.\n", name)
	at := map[string]int{}
	var order []string
	users := map[string][]string{}
	for _, n := range notices {
		if len(n.Texts) == 0 {
			users[""] = append(users[""], n.Module.Path+" "+n.Module.Version)
		}
		for _, text := range n.Texts {
			key := strings.TrimSpace(string(text))
			if _, ok := at[key]; !ok {
				at[key] = len(order)
				order = append(order, key)
			}
			users[key] = append(users[key], n.Module.Path+" "+n.Module.Version)
		}
	}
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(slices.Compact(users[text]), "\n"), text)
	}
	if none := users[""]; len(none) > 0 {
		fmt.Fprintf(&b, "\n%s\nWithout a licence at their root:\n%s\n", strings.Repeat("=", 80), strings.Join(none, "\n"))
	}
	return []byte(b.String())
}
