package fetch

import (
	"context"
	"fmt"
	"io"

	"cadre.dev/images/internal/recipe"
)

// publicMaven is Maven Central, which keeps every version.
const publicMaven = "https://repo1.maven.org/maven2/"

// maxJar bounds a jar whose digest is not locked yet, in bytes.
const maxJar = 256 << 20

// JarURL is where Maven Central has a jar.
func JarURL(j recipe.Jar) string { return publicMaven + j.Path() }

// JarItem wants a locked jar, which the lock names at where.
func JarItem(j recipe.Jar, where string) Item {
	return Item{
		Name: "jar " + j.Name + " " + j.Version, Where: where, SHA256: j.SHA256, Size: j.Size,
		From: func(context.Context) ([]string, error) { return []string{JarURL(j)}, nil },
		Help: "Maven Central keeps all versions: check the network, and the name in the recipe.",
	}
}

// Digest fetches a file into the cache and returns its digest and size.
func (c *Cache) Digest(ctx context.Context, url string) (recipe.Blob, error) {
	body, err := c.open(ctx, url)
	if err != nil {
		return recipe.Blob{}, fmt.Errorf("%s: %w", Redact(url), err)
	}
	defer func() { _ = body.Close() }()
	limited := &io.LimitedReader{R: body, N: maxJar}
	sum, err := c.Store(limited, "")
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("%s has %d bytes or more", Redact(url), maxJar)
	}
	return recipe.Blob{SHA256: sum, Size: maxJar - limited.N}, err
}
