// Command gendocs writes the tables of docs/reference/consul-proxy.md between their marks.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/xds"
)

func main() {
	out := flag.String("o", "", "the page")
	flag.Parse()
	text, err := os.ReadFile(*out)
	if err == nil {
		var page string
		if page, err = fill(string(text), map[string]string{"rules": consulproxy.Table(), "limits": consulproxy.Shares(), "xds": xds.Shares()}); err == nil {
			err = os.WriteFile(*out, []byte(page), 0o644) //nolint:gosec // documentation is for everybody
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func fill(page string, parts map[string]string) (string, error) {
	for name, part := range parts {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			return "", fmt.Errorf("the marks of %s are not in the page", name)
		}
		page = before + begin + part + end + after
	}
	return page, nil
}
