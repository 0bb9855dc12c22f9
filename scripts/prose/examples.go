package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkExamples has vale read each line of examples.txt, as a page, as a comment and as help. A line
// that begins with "error " has an error, and a line with "good " none. "|" ends a line of the text.
func checkExamples(ctx context.Context) error {
	text, err := os.ReadFile("scripts/prose/examples.txt")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "prose")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	wanted, files := map[string]string{}, []string(nil)
	for line := range strings.Lines(string(text)) {
		verdict, sentence, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verdict != "error" && verdict != "good" {
			return fmt.Errorf("examples.txt: %q: want error or good, and a sentence", line)
		}
		for suffix, content := range map[string]string{
			".md":    strings.ReplaceAll(sentence, "|", "\n") + "\n",
			".go":    "// " + strings.ReplaceAll(sentence, "|", "\n// ") + "\npackage p\n",
			".proto": "// " + strings.ReplaceAll(sentence, "|", "\n// ") + "\nmessage M {}\n",
			".txt":   strings.ReplaceAll(sentence, "|", "\n") + "\n",
		} {
			file := filepath.Join(dir, fmt.Sprintf("%d%s", len(files), suffix))
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				return err
			}
			files, wanted[file] = append(files, file), verdict+" "+sentence
		}
	}
	if len(files) == 0 {
		return errors.New("examples.txt has no example")
	}
	alerts, err := lint(ctx, files)
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if verdict, _, _ := strings.Cut(wanted[file], " "); (verdict == "error") != slices.ContainsFunc(alerts[file], Alert.fails) {
			errs = append(errs, fmt.Errorf("%s in %s: the styles say %v", wanted[file], filepath.Ext(file), alerts[file]))
		}
	}
	return errors.Join(errs...)
}
