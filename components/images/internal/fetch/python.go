package fetch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"cadre.dev/images/internal/recipe"
)

const (
	publicIndex = "https://pypi.org/simple"
	// maxIndexPage bounds the page of an index about one package, in bytes.
	maxIndexPage = 64 << 20
)

// Indexes are the Python indexes and folders of wheels that a machine uses.
type Indexes struct {
	urls    []string
	folders []string
	client  *http.Client
}

// ReadIndexes reads pip's configuration: its environment variables, then its files. A
// machine without any uses the public index, which comes last everywhere.
func ReadIndexes(env func(string) string, files []string) Indexes {
	x := Indexes{client: &http.Client{Timeout: 2 * time.Minute}}
	x.set("index-url", env("PIP_INDEX_URL"))
	x.set("extra-index-url", env("PIP_EXTRA_INDEX_URL"))
	x.set("find-links", env("PIP_FIND_LINKS"))
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		for lines.Scan() {
			if name, value, ok := strings.Cut(lines.Text(), "="); ok {
				x.set(strings.TrimSpace(name), value)
			}
		}
	}
	x.set("index-url", publicIndex)
	return x
}

// PipFiles are where pip's configuration is on this machine.
func PipFiles(home string) []string {
	return []string{filepath.Join(home, ".config/pip/pip.conf"), filepath.Join(home, ".pip/pip.conf"), "/etc/pip.conf"}
}

func (x *Indexes) set(name, values string) {
	for value := range strings.FieldsSeq(values) {
		switch {
		case name == "find-links" && filepath.IsAbs(value):
			x.folders = append(x.folders, value)
		case name != "index-url" && name != "extra-index-url", !strings.HasPrefix(value, "http"):
		default:
			if value = strings.TrimSuffix(value, "/"); !slices.Contains(x.urls, value) {
				x.urls = append(x.urls, value)
			}
		}
	}
}

// Of lists where a wheel may be: it asks the indexes.
func (x Indexes) Of(ctx context.Context, w recipe.Wheel) ([]string, error) {
	var all []string
	for _, folder := range x.folders {
		if at := filepath.Join(folder, w.File); exists(at) {
			all = append(all, at)
		}
	}
	var errs []error
	for _, index := range x.urls {
		at, err := x.ask(ctx, index+"/"+w.Name+"/", w.File)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Redact(index), err))
			continue
		}
		all = append(all, at)
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, errors.Join(errs...)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

var anchor = regexp.MustCompile(`(?i)<a\s[^>]*href\s*=\s*["']([^"']+)["']`)

// ask finds a file on the page that an index has of a package (PEP 503, PEP 691).
func (x Indexes) ask(ctx context.Context, page, file string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
	reply, err := x.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return "", errors.New(reply.Status)
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxIndexPage))
	if err != nil {
		return "", err
	}
	for _, link := range links(body) {
		at, err := reply.Request.URL.Parse(link)
		if err != nil {
			continue
		}
		name, err := url.PathUnescape(path.Base(at.EscapedPath()))
		if err == nil && name == file && (at.Scheme == "http" || at.Scheme == "https") {
			at.Fragment = ""
			return at.String(), nil
		}
	}
	return "", fmt.Errorf("it has no %s", file)
}

func links(page []byte) []string {
	var simple struct {
		Files []struct {
			URL string `json:"url"`
		} `json:"files"`
	}
	var all []string
	if json.Unmarshal(page, &simple) == nil {
		for _, f := range simple.Files {
			all = append(all, f.URL)
		}
		return all
	}
	for _, m := range anchor.FindAllSubmatch(page, -1) {
		all = append(all, html.UnescapeString(string(m[1])))
	}
	return all
}
