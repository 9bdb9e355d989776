package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/schemas"
)

func newSetup(from *settings) *cobra.Command {
	var kibana string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Declare the topology, install the index templates, import the Kibana data view",
		Long: `setup declares our exchanges and queues, taps the configured exchanges, and
installs the index templates. It can be repeated: what is there stays, and what
is there in another form ends it with an error that says what to do.`,
		Example: "  watership setup --config watership.yaml --kibana http://localhost:5601",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			return s.setup(cmd.Context(), cmd.OutOrStdout(), kibana)
		},
	}
	cmd.Flags().StringVar(&kibana, "kibana", "", "URL of the Kibana that gets the data view")
	return cmd
}

func (s system) setup(ctx context.Context, out io.Writer, kibana string) error {
	if err := s.declare(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "topology    declared at %s\n", s.cfg.AMQP.URL)
	store, err := s.store()
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Install(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "templates   installed at %s for %s-*\n", s.cfg.Store.URL, s.cfg.Store.Stream)
	if kibana == "" {
		return nil
	}
	if err := importDataView(ctx, kibana, s.cfg.Store.Stream); err != nil {
		return err
	}
	fmt.Fprintf(out, "data view   imported at %s\n", config.NewURL(kibana))
	return nil
}

func (s system) declare(ctx context.Context) (err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	conn, err := s.connect("setup", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := amqp.Declare(ctx, conn, s.pipeline().TopologyConfig()); err != nil {
		return fmt.Errorf("declaring the topology at %s: %w", s.cfg.AMQP.URL, err)
	}
	return nil
}

// importDataView uses Kibana's import of saved objects
// (https://www.elastic.co/guide/en/kibana/8.19/saved-objects-api-import.html).
func importDataView(ctx context.Context, kibana, stream string) error {
	objects, err := schemas.KibanaObjects(stream)
	if err != nil {
		return err
	}
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	file, err := writer.CreateFormFile("file", "watership.ndjson")
	if err == nil {
		_, err = file.Write(objects)
	}
	if err := errors.Join(err, writer.Close()); err != nil {
		return fmt.Errorf("making the import for Kibana: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	url := strings.TrimRight(kibana, "/") + "/api/saved_objects/_import?overwrite=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &form)
	if err != nil {
		return usagef("--kibana %s is no URL", config.NewURL(kibana))
	}
	request.Header.Set("Content-Type", writer.FormDataContentType())
	request.Header.Set("kbn-xsrf", "watership")
	return kibanaAnswer(request)
}

func kibanaAnswer(request *http.Request) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("importing the data view into Kibana: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var answer struct {
		Success bool `json:"success"`
	}
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil || !answer.Success {
		return fmt.Errorf("Kibana did not import the data view (%s): %.300s", response.Status, text)
	}
	return nil
}
