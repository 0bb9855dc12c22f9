package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"cadre.dev/cli/registry"
	"cadre.dev/compose/pin"
	"cadre.dev/core/appcompose"
)

func newComposeHash() function.Function { return composeHash{} }

// composeHash is the compose hash of an app-compose.json.
type composeHash struct{}

func (composeHash) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "compose_hash"
}

func (composeHash) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary:             "Compose hash of an app-compose.json",
		MarkdownDescription: "The hash that a CVM with this app-compose.json attests, as `cadre compose hash` says. Its bytes count, white space included. The document that Cadre renders from a compose file is in the data source `cadre_compose`.",
		Parameters:          []function.Parameter{function.StringParameter{Name: "app_compose", MarkdownDescription: "Text of the app-compose.json."}},
		Return:              function.StringReturn{},
	}
}

func (composeHash) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}
	if _, err := appcompose.Read([]byte(text)); err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error()+"; for a docker compose file use the data source cadre_compose")
		return
	}
	resp.Error = resp.Result.Set(ctx, appcompose.Hash([]byte(text)))
}

func newPin() function.Function { return pinImages{} }

// pinImages adds digests to the tags of a compose file.
type pinImages struct{}

// pinTime bounds the answer of each image's registry.
const pinTime = 30 * time.Second

func (pinImages) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "pin"
}

func (pinImages) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Compose file with the digests of its images",
		MarkdownDescription: "Asks the registry of each image without a digest for the present digest of its tag, and adds the digest to the tag, as `cadre compose pin` does. Images with a digest stay unchanged, and a file with only such images needs no registry. " +
			"Since a tag may move, a plan may differ from the one before: pin the file with `cadre compose pin -w` where that is not wanted.",
		Parameters: []function.Parameter{function.StringParameter{Name: "compose", MarkdownDescription: "Text of the compose file."}},
		Return:     function.StringReturn{},
	}
}

func (pinImages) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}
	out, err := pinned(ctx, []byte(text))
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error())
		return
	}
	resp.Error = resp.Result.Set(ctx, string(out))
}

func pinned(ctx context.Context, text []byte) ([]byte, error) {
	images, err := pin.Images(text)
	if err != nil {
		return nil, fmt.Errorf("the compose file %w", err)
	}
	references := map[string]string{}
	for _, i := range images {
		if i.Pinned() {
			continue
		}
		one, cancel := context.WithTimeout(ctx, pinTime)
		digest, err := registry.Resolver{}.Resolve(one, i.Tagged())
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%d:%d: %w", i.Line, i.Column, err)
		}
		references[i.Service] = i.Tagged() + "@" + digest
	}
	return pin.Write(text, references)
}
