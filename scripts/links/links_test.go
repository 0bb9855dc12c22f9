package links

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	heading = regexp.MustCompile(`(?m)^#+ +(.*?) *$`)
	named   = regexp.MustCompile(`<a id="([^"]+)"`)
	target  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	scheme  = regexp.MustCompile(`^[a-z]+:`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestEveryLinkLeadsToASection reads the Markdown files that git knows.
func TestEveryLinkLeadsToASection(t *testing.T) {
	root := filepath.Join("..", "..")
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard", "--", "*.md")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal("git lists no files:", err)
	}
	pages := map[string]string{}
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // git lists a deleted page until the deletion is staged
		} else if err != nil {
			t.Fatal(err)
		}
		pages[name] = fence.ReplaceAllString(string(text), "")
	}
	if len(pages) < 50 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	links := 0
	for name, text := range pages {
		for _, match := range target.FindAllStringSubmatch(text, -1) {
			if scheme.MatchString(match[1]) {
				continue
			}
			links++
			if problem := follow(root, name, match[1], pages); problem != "" {
				t.Errorf("%s links to %s: %s", name, match[1], problem)
			}
		}
	}
	if links < 500 {
		t.Errorf("only %d links were found", links)
	}
}

// follow returns the problem of a link of a page, or "".
func follow(root, page, link string, pages map[string]string) string {
	path, section, _ := strings.Cut(link, "#")
	to := page
	if path != "" {
		to = filepath.Join(filepath.Dir(page), path)
	}
	if _, err := os.Stat(filepath.Join(root, to)); err != nil {
		return "no such file"
	}
	if text, known := pages[to]; known && section != "" && !sections(text)[section] {
		return "the page has no such section"
	}
	return ""
}

// sections are the anchors of a page, as a repository's web pages derive them from headings: lower case, without
// punctuation, hyphens for spaces, and a number after a repeated name.
func sections(text string) map[string]bool {
	all, seen := map[string]bool{}, map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		name := linked.ReplaceAllString(match[1], "$1")
		name = strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(name), ""), " ", "-")
		if n := seen[name]; n > 0 {
			all[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			all[name] = true
		}
		seen[name]++
	}
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		all[match[1]] = true
	}
	return all
}

// TestADeadLinkIsFound: the check itself notices each kind of dead link.
func TestADeadLinkIsFound(t *testing.T) {
	pages := map[string]string{"README.md": "# Cadre\n\n## Two `commands`, one run\n## Again\n## Again\n<a id=\"old-name\"></a>\n"}
	for link, wrong := range map[string]bool{
		"README.md#two-commands-one-run": false,
		"#again-1":                       false,
		"#old-name":                      false,
		"#again-2":                       true,
		"README.md#gone":                 true,
		"no-such-page.md":                true,
		"scripts":                        false,
	} {
		if problem := follow(filepath.Join("..", ".."), "README.md", link, pages); (problem != "") != wrong {
			t.Errorf("%s: %q", link, problem)
		}
	}
}
