// The endpoints of responses that are stored: they are asked for again, followed, cancelled,
// deleted (spec E.8). All on the HTTP server's thread, which is the one that drives the answers.
#pragma once

#include <memory>

#include "api/responses_store.h"
#include "server/http_server.h"

namespace rose {

// GET /v1/responses/{id}: the object as it is; with ?stream=true its events, past and to come,
// after ?starting_after=N if that is given. GET /v1/responses/{id}/input_items?after&limit&order.
void GetResponse(ResponseStore& store, const HttpRequest& request,
                 std::shared_ptr<ResponseWriter> writer);
// POST /v1/responses/{id}/cancel.
void CancelResponse(ResponseStore& store, const HttpRequest& request, ResponseWriter& writer);
// DELETE /v1/responses/{id}; one that is running is cancelled.
void DeleteResponse(ResponseStore& store, const HttpRequest& request, ResponseWriter& writer);

}  // namespace rose
