// Package tree merges the files of packages into the layer of an image.
//
// The content of packages is foreign: a Tree takes clean relative paths only, follows the links of
// a merged /usr and no other, takes no devices, and rejects two packages that disagree about a
// file. It does not know the sources of files: their bytes stay on disk until WriteTar asks for
// them.
package tree
