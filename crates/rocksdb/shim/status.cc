#include "status.h"

namespace zonda {

using rocksdb::Status;

namespace {

IOStatus Make(uint8_t kind, const std::string& message) {
  switch (kind) {
    case ZONDA_NOT_FOUND:
      return IOStatus::PathNotFound(message);
    case ZONDA_NO_SPACE:
      return IOStatus::NoSpace(message);
    case ZONDA_BUSY:
      return IOStatus::Busy(message);
    case ZONDA_CORRUPTION:
      return IOStatus::Corruption(message);
    case ZONDA_NOT_SUPPORTED:
      return IOStatus::NotSupported(message);
    case ZONDA_INVALID_ARGUMENT:
      return IOStatus::InvalidArgument(message);
    case ZONDA_STALE:
      // `IOStatus` makes none with this sub-code and a message, `Status` does.
      return rocksdb::status_to_io_status(Status(Status::kIOError, Status::kStaleFile, Status::kNoError, message));
    default:
      return IOStatus::IOError(message);
  }
}

}  // namespace

IOStatus ToStatus(zonda_outcome outcome) {
  if (outcome.kind == ZONDA_OK) {
    return IOStatus::OK();
  }
  IOStatus status = Make(outcome.kind, outcome.message != nullptr ? outcome.message : "");
  zonda_bridge_free_message(outcome.message);
  status.SetRetryable(outcome.is_retryable);
  status.SetScope(IOStatus::kIOErrorScopeFileSystem);
  return status;
}

IOStatus ToExistence(zonda_outcome outcome) {
  if (outcome.kind != ZONDA_NOT_FOUND) {
    return ToStatus(outcome);
  }
  IOStatus status = IOStatus::NotFound(outcome.message != nullptr ? outcome.message : "");
  zonda_bridge_free_message(outcome.message);
  return status;
}

}  // namespace zonda
