package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// manifest is an image manifest of OCI 1.1.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     types.MediaType   `json:"mediaType"`
	ArtifactType  types.MediaType   `json:"artifactType,omitempty"`
	Config        v1.Descriptor     `json:"config"`
	Layers        []v1.Descriptor   `json:"layers"`
	Subject       *v1.Descriptor    `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Image is a manifest with its blobs: an image, or an artifact about one.
type Image struct {
	v1.Image
	// Descriptor is how an index names it.
	Descriptor v1.Descriptor
	Blobs      []Blob
}

// New makes an image of a configuration and its layers, lowest first.
func New(config v1.ConfigFile, layers []Blob, annotations map[string]string) (*Image, error) {
	config.RootFS = v1.RootFS{Type: "layers"}
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.DiffID)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	img, err := assemble(manifest{Annotations: annotations}, Bytes(types.OCIConfigJSON, text), layers)
	if err != nil {
		return nil, err
	}
	img.Descriptor.Platform = &v1.Platform{OS: config.OS, Architecture: config.Architecture}
	return img, nil
}

// NewArtifact makes a document about an image: registries list it among the referrers of
// the subject.
func NewArtifact(subject v1.Descriptor, kind types.MediaType, data []byte, annotations map[string]string) (*Image, error) {
	// The type occurs twice: registries older than OCI 1.1 know only the configuration's type.
	about := v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	img, err := assemble(manifest{ArtifactType: kind, Subject: &about, Annotations: annotations},
		Bytes(kind, []byte("{}")), []Blob{Bytes(kind, data)})
	if err != nil {
		return nil, err
	}
	img.Descriptor.ArtifactType = string(kind)
	return img, nil
}

func assemble(m manifest, config Blob, layers []Blob) (*Image, error) {
	m.SchemaVersion, m.MediaType, m.Config = 2, types.OCIManifestSchema1, config.Descriptor
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Descriptor)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	image, err := partial.CompressedToImage(raw{text, config.Data, layers})
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	digest, size, err := v1.SHA256(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	return &Image{
		Image: image, Blobs: layers,
		Descriptor: v1.Descriptor{MediaType: m.MediaType, Digest: digest, Size: size},
	}, nil
}

// raw is the interface of an image that the library needs.
type raw struct {
	manifest, config []byte
	layers           []Blob
}

func (r raw) RawManifest() ([]byte, error)        { return r.manifest, nil }
func (r raw) RawConfigFile() ([]byte, error)      { return r.config, nil }
func (r raw) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (r raw) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range r.layers {
		if l.Descriptor.Digest == digest {
			return layer{l}, nil
		}
	}
	return nil, fmt.Errorf("no layer %s", digest)
}

type layer struct{ Blob }

func (l layer) Digest() (v1.Hash, error)            { return l.Descriptor.Digest, nil }
func (l layer) Compressed() (io.ReadCloser, error)  { return l.open() }
func (l layer) Size() (int64, error)                { return l.Descriptor.Size, nil }
func (l layer) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }
