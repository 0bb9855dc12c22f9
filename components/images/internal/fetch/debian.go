package fetch

import (
	"bytes"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cadre.dev/images/internal/recipe"
)

// The public places: the first has today's packages, the second every package of all times.
const (
	publicDebian = "http://deb.debian.org/"
	snapshot     = "https://snapshot.debian.org/archive/"
)

// Mirrors are the mirrors of Debian that a machine uses.
type Mirrors struct {
	// bases are URLs by archive ("debian"), without a slash at the end.
	bases map[string][]string
}

// ReadMirrors reads apt's lists of sources below a folder such as /etc/apt. A machine
// without them uses the public mirror, which comes last everywhere.
func ReadMirrors(apt string) Mirrors {
	m := Mirrors{bases: map[string][]string{}}
	lists, _ := filepath.Glob(filepath.Join(apt, "sources.list.d", "*.list"))
	for _, name := range append([]string{filepath.Join(apt, "sources.list")}, lists...) {
		if data, err := os.ReadFile(name); err == nil {
			m.oneLine(data)
		}
	}
	stanzas, _ := filepath.Glob(filepath.Join(apt, "sources.list.d", "*.sources"))
	for _, name := range stanzas {
		if data, err := os.ReadFile(name); err == nil {
			m.stanzas(data)
		}
	}
	for _, archive := range recipe.Archives {
		m.add(publicDebian + archive)
	}
	return m
}

// oneLine reads "deb [options] URI suite components".
func (m Mirrors) oneLine(data []byte) {
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "deb" {
			continue
		}
		if i := slices.IndexFunc(f, func(s string) bool { return strings.Contains(s, "://") }); i > 0 {
			m.add(f[i])
		}
	}
}

// stanzas reads the deb822 form: URIs of every stanza that is enabled.
func (m Mirrors) stanzas(data []byte) {
	for stanza := range bytes.SplitSeq(data, []byte("\n\n")) {
		var uris []string
		enabled := true
		for line := range strings.Lines(string(stanza)) {
			name, value, ok := strings.Cut(line, ":")
			switch {
			case !ok || strings.HasPrefix(line, "#"):
			case strings.EqualFold(name, "URIs"):
				uris = strings.Fields(value)
			case strings.EqualFold(name, "Enabled"):
				enabled = !strings.EqualFold(strings.TrimSpace(value), "no")
			}
		}
		for _, uri := range uris {
			if enabled {
				m.add(uri)
			}
		}
	}
}

func (m Mirrors) add(uri string) {
	u, err := url.Parse(strings.TrimSuffix(uri, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return
	}
	archive := path.Base(u.Path)
	if slices.Contains(recipe.Archives, archive) && !slices.Contains(m.bases[archive], u.String()) {
		m.bases[archive] = append(m.bases[archive], u.String())
	}
}

// First is the URL of the machine's first mirror of an archive.
func (m Mirrors) First(archive string) string { return m.bases[archive][0] }

// Of lists where a package may be; at is the age of its lock.
func (m Mirrors) Of(d recipe.Deb, at time.Time) []string {
	archive, below := d.Archive()
	escaped := (&url.URL{Path: below}).EscapedPath()
	var all []string
	for _, base := range m.bases[archive] {
		all = append(all, base+"/"+escaped)
	}
	return append(all, snapshot+archive+"/"+at.UTC().Format("20060102T150405Z")+"/"+escaped)
}
