package bom

import (
	"archive/zip"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"cadre.dev/images/internal/recipe"
)

// Jar describes a Java archive, whose file is name. Its licence is that of the texts at its root and in META-INF.
func Jar(j recipe.Jar, name string) (Component, error) {
	group, artifact, _ := strings.Cut(j.Name, ":")
	c := Component{Name: j.Name, Version: j.Version, SHA256: j.SHA256, URL: fmt.Sprintf("pkg:maven/%s/%s@%s", url.PathEscape(group), url.PathEscape(artifact), url.QueryEscape(j.Version))}
	archive, err := zip.OpenReader(name)
	if err != nil {
		return c, fmt.Errorf("read the archive: %w", err)
	}
	defer func() { _ = archive.Close() }()
	var texts [][]byte
	for _, f := range archive.File {
		if dir := path.Dir(f.Name); dir != "." && dir != "META-INF" || !noticeName.MatchString(path.Base(f.Name)) || f.UncompressedSize64 > maxNotice {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return c, fmt.Errorf("read %s: %w", f.Name, err)
		}
		text, err := io.ReadAll(io.LimitReader(r, maxNotice))
		_ = r.Close()
		if err != nil {
			return c, fmt.Errorf("read %s: %w", f.Name, err)
		}
		texts = append(texts, text)
	}
	c.Licence, c.Comment = Texts(texts)
	return c, nil
}
