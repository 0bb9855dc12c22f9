// gendocs writes docs/ from the provider's schemas and examples/, in the form that
// registries read. Usage: gendocs MODULE_FOLDER
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"cadre.dev/terraform-provider/internal/provider"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := generate(context.Background(), root); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, root string) error {
	server, err := providerserver.NewProtocol6WithError(provider.New("docs")())()
	if err != nil {
		return err
	}
	schemas, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return err
	}
	b := &book{root: root, pages: map[string]string{}}
	b.add("index", page{title: "cadre Provider", example: "provider/provider.tf", schema: schemas.Provider})
	for _, kind := range []struct {
		folder, word, examples, file string
		schemas                      map[string]*tfprotov6.Schema
	}{
		{"resources", "Resource", "resources", "resource.tf", schemas.ResourceSchemas},
		{"data-sources", "Data Source", "data-sources", "data-source.tf", schemas.DataSourceSchemas},
		{"ephemeral-resources", "Ephemeral Resource", "ephemeral-resources", "ephemeral-resource.tf", schemas.EphemeralResourceSchemas},
	} {
		for _, name := range slices.Sorted(maps.Keys(kind.schemas)) {
			b.add(kind.folder+"/"+short(name), page{
				title: name + " (" + kind.word + ")", example: filepath.Join(kind.examples, name, kind.file),
				imported: filepath.Join(kind.examples, name, "import.sh"), schema: kind.schemas[name],
			})
		}
	}
	functions, err := server.GetFunctions(ctx, &tfprotov6.GetFunctionsRequest{})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(functions.Functions)) {
		b.function(name, functions.Functions[name])
	}
	if b.err != nil {
		return b.err
	}
	return b.write()
}

// book is every page, by its name without the ending; the first error ends it.
type book struct {
	root  string
	pages map[string]string
	err   error
}

// write replaces the folder docs, so that no page of something that is gone stays.
func (b *book) write() error {
	out := filepath.Join(b.root, "docs")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, text := range b.pages {
		file := filepath.Join(out, name+".md")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // documentation is for all to read
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}
